package genai

import (
	"strconv"
	"strings"

	"driftline/internal/identity"
)

// slot names one fact that some attribute can state, in the order of
// dialects.Meanings.
type slot uint8

const (
	slotOperation slot = iota + 1
	slotOIKind
	slotTLKind
	slotLLMType
	slotLFType
	slotVercelOp
	slotKind
	slotMCPMethod
	slotModel
	slotResponseModel
	slotProvider
	slotTool
	slotToolCall
	slotToolStatus
	slotToolType
	slotAgent
	slotWorkflow
	slotInputTokens
	slotOutputTokens
	slotCachedTokens
	slotReasoningTokens
	slotUsageJSON
	slotStream
	slotTTFT
	slotTTFTInstant
	slotErrorType
	slotHTTPStatus
	slotHTTPMethod
	slotURL
	slotServer
	slotPort
	slotRegion
	slotRPC
	slotResend
	slotRetryCount // ordinal from 0, a header
	slotAttempt    // total or ordinal from 1
	slotMaxRetries
	slotMaxAttempts
	slotTimeout
	slotBudget
	slotDeadline
	slotReceived
	slotPerceived
	slotAgentTime
	slotPriority
	slotFinish
	slotQueue
	slotConnect
	slotSuccess
	slotLevel
	slotSampleRate
	slotSampleRatio
	slotBackoff
	slotChunkType
	slotReadTimeout // silence that a client bears
	slotSentTimeout // what a caller says it will wait
	slotCallID
	slotRPCStatus
	slotRequestSize
	slotUser
	slotTenant
	numSlots
)

// Units of numbers, in nanoseconds. unitByType reads whole numbers as nanoseconds and
// fractions as seconds; unitGRPC reads digits and a letter.
const (
	unitNone   int64 = 0
	ns         int64 = 1
	ms         int64 = 1_000_000
	sec        int64 = 1_000_000_000
	unitByType int64 = -1
	unitGRPC   int64 = -2
)

// requestBudgetRank is the highest rank of the keys that name the request's budget.
const requestBudgetRank = 2

// Wanted says whether an attribute with this key, on a span or an event, is kept at
// ingestion: what driftline reads, and the configured keys. Keys that carry prompts,
// completions or tool arguments are never kept, even when configured.
func Wanted(key string, opt *Options) bool {
	set := opt.set()
	if k, ok := set.keys[key]; ok {
		return !k.id || opt != nil && opt.Identity != nil // nobody's id is held for nothing
	}
	if opt == nil {
		return false
	}
	for _, list := range opt.lists() {
		for _, k := range list {
			if k == key {
				return !set.content.Carries(key)
			}
		}
	}
	for _, k := range opt.RequestKeys {
		for part := range strings.SplitSeq(k, "+") {
			if part == key {
				return !set.content.Carries(key)
			}
		}
	}
	return false
}

func (o *Options) lists() [8][]string {
	if o.Identity == nil {
		return [8][]string{o.Attributes, o.BudgetKeys, o.ReceivedAtKeys, o.PerceivedRemainingKeys, o.AgentTimeKeys, o.PriorityKeys}
	}
	return [8][]string{o.Attributes, o.BudgetKeys, o.ReceivedAtKeys, o.PerceivedRemainingKeys, o.AgentTimeKeys, o.PriorityKeys, o.UserKeys, o.TenantKeys}
}

// facts is what a list of attributes states: for each slot the value of its
// best-ranked key, with that key's unit.
type facts struct {
	at   [numSlots]uint8 // 1 + index in list; 0 where nothing is stated
	seen keySet
	list []fact
}

type fact struct {
	val *Value
	key *known
}

// read fills f from attrs; extra holds the configured keys and may be nil.
func (f *facts) read(set *Dialects, attrs []Attr, extra map[string]*known) {
	for i := range attrs {
		a := &attrs[i]
		k, ok := set.keys[a.Key]
		if !ok {
			if k, ok = extra[a.Key]; !ok {
				continue
			}
		}
		f.seen |= k.seen
		if a.Value.Type == ValueEmpty || k.number && !readable(&a.Value, k.unit) || k.id && !names(&a.Value) {
			continue // what was redacted or not given must not hide what another key says
		}
		switch have := f.at[k.slot]; {
		case have == 0 && len(f.list) < 255:
			f.list = append(f.list, fact{&a.Value, k})
			f.at[k.slot] = uint8(len(f.list))
		case have > 0 && f.list[have-1].key.rank > k.rank:
			f.list[have-1] = fact{&a.Value, k}
		}
	}
}

// val is the value stated for s, nil for none.
func (f *facts) val(s slot) *Value {
	if k := f.at[s]; k > 0 {
		return f.list[k-1].val
	}
	return nil
}

// rank is the precedence of the key that stated s, which must be stated.
func (f *facts) rank(s slot) uint8 { return f.list[f.at[s]-1].key.rank }

// holds says whether s is stated by a key that counts in the span's dialect.
func (f *facts) holds(s slot) bool {
	k := f.at[s]
	if k == 0 {
		return false
	}
	only := f.list[k-1].key.only
	return only == 0 || f.seen&only != 0
}

// unit is the unit in which s is stated, in the span's dialect.
func (f *facts) unit(s slot) int64 {
	k := f.list[f.at[s]-1].key
	for _, u := range k.units {
		if f.seen&u.in != 0 {
			return u.unit
		}
	}
	return k.unit
}

// set states s as another span does.
func (f *facts) set(s slot, from *facts) {
	if from.has(s) && f.at[s] == 0 && len(f.list) < 255 {
		f.list = append(f.list, from.list[from.at[s]-1])
		f.at[s] = uint8(len(f.list))
	}
}

func (f *facts) str(s slot) string {
	v := f.val(s)
	if v == nil {
		return ""
	}
	text, _ := v.AsString()
	return text
}

func (f *facts) has(s slot) bool { return f.at[s] > 0 }

// num reads a whole number that is not negative.
func (f *facts) num(s slot) (int64, bool) {
	v := f.val(s)
	if v == nil {
		return 0, false
	}
	n, ok := v.AsInt()
	return n, ok && n >= 0
}

// ptr gives v an address. It keeps values that turn out unknown off the heap.
func ptr[T any](v T) *T { return &v }

// dur reads a duration or instant in nanoseconds by its key's unit.
func (f *facts) dur(s slot) (int64, bool) {
	v := f.val(s)
	if v == nil {
		return 0, false
	}
	unit := f.unit(s)
	switch unit {
	case unitByType:
		unit = sec
		if v.Type == ValueInt {
			unit = ns
		}
	case unitGRPC:
		text, _ := v.AsString()
		return grpcTimeout(text)
	}
	if v.Type == ValueInt {
		if v.Int > maxTime/unit || v.Int < -maxTime/unit {
			return 0, false
		}
		return v.Int * unit, true
	}
	x, ok := v.AsFloat()
	x *= float64(unit)
	if !ok || x > float64(maxTime) || x < -float64(maxTime) {
		return 0, false
	}
	if x < 0 {
		return int64(x - 0.5), true
	}
	return int64(x + 0.5), true
}

// readable says whether v states a number of the unit. A count below zero says "none" or
// "not known" in some clients' words; durations may lie below zero.
func readable(v *Value, unit int64) bool {
	if unit == unitGRPC {
		text, _ := v.AsString()
		_, ok := grpcTimeout(text)
		return ok
	}
	if v.Type == ValueInt {
		return unit != unitNone || v.Int >= 0
	}
	x, ok := v.AsFloat()
	return ok && (unit != unitNone || x >= 0)
}

// names says whether v names a user or tenant.
func names(v *Value) bool {
	text, ok := v.AsString()
	return ok && identity.Names(text)
}

// grpcTimeout reads gRPC's timeout: 1 to 8 digits and a letter for the unit, in which
// M are minutes and m milliseconds.
func grpcTimeout(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	var unit int64
	switch text[len(text)-1] {
	case 'H':
		unit = 3600 * sec
	case 'M':
		unit = 60 * sec
	case 'S':
		unit = sec
	case 'm':
		unit = ms
	case 'u':
		unit = 1000 * ns
	case 'n':
		unit = ns
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil || int64(n) > maxTime/unit {
		return 0, false
	}
	return int64(n) * unit, true
}

// timeout is the declared timeout of the call or attempt: what an attribute states, else
// the shorter of what headers say of the whole answer and of the wait for each byte.
func (f *facts) timeout() (int64, bool) {
	if d, ok := f.positive(slotTimeout); ok {
		return d, true
	}
	sent, known := f.positive(slotSentTimeout)
	read, ok := f.positive(slotReadTimeout)
	switch {
	case known && ok:
		return min(sent, read), true
	case ok:
		return read, true
	}
	return sent, known
}

// positive is dur for durations that make sense only above zero.
func (f *facts) positive(s slot) (int64, bool) {
	d, ok := f.dur(s)
	return d, ok && d > 0
}

// extraKeys turns the configured keys into fields. The unit of a duration follows the
// key's ending: _ms, _us, _ns; seconds otherwise. Instants are milliseconds unless the
// key ends in _s or _ns.
func (o *Options) extraKeys() map[string]*known {
	if len(o.BudgetKeys)+len(o.ReceivedAtKeys)+len(o.PerceivedRemainingKeys)+len(o.AgentTimeKeys)+len(o.PriorityKeys)+len(o.UserKeys)+len(o.TenantKeys) == 0 {
		return nil
	}
	out := map[string]*known{}
	add := func(keys []string, s slot, plain int64) {
		for i, k := range keys {
			out[k] = &known{slot: s, rank: uint8(min(100+i, 255)), unit: unitOfKey(k, plain), id: isID(s)}
		}
	}
	add(o.BudgetKeys, slotBudget, sec)
	add(o.ReceivedAtKeys, slotReceived, ms)
	add(o.PerceivedRemainingKeys, slotPerceived, sec)
	add(o.AgentTimeKeys, slotAgentTime, sec)
	add(o.PriorityKeys, slotPriority, unitNone)
	add(o.UserKeys, slotUser, unitNone)
	add(o.TenantKeys, slotTenant, unitNone)
	return out
}

func unitOfKey(key string, plain int64) int64 {
	switch {
	case strings.HasSuffix(key, "_ms"), strings.HasSuffix(key, ".ms"):
		return ms
	case strings.HasSuffix(key, "_us"):
		return 1000
	case strings.HasSuffix(key, "_ns"):
		return ns
	case strings.HasSuffix(key, "_s"), strings.HasSuffix(key, "_seconds"):
		return sec
	}
	return plain
}
