package genai

import "strings"

// slot names one fact that some attribute can state.
type slot uint8

const (
	slotOperation slot = iota + 1 // gen_ai.operation.name
	slotOIKind                    // openinference.span.kind
	slotTLKind                    // traceloop.span.kind
	slotLLMType                   // llm.request.type
	slotLFType                    // langfuse.observation.type
	slotVercelOp                  // ai.operationId
	slotMCPMethod
	slotModel
	slotResponseModel
	slotProvider
	slotTool
	slotToolCall
	slotToolStatus
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
	numSlots
)

// Units of numbers, in nanoseconds. unitByType reads whole numbers as nanoseconds and
// fractions as seconds; unitStrands reads milliseconds from Strands, else seconds.
const (
	unitNone    int64 = 0
	ns          int64 = 1
	ms          int64 = 1_000_000
	sec         int64 = 1_000_000_000
	unitByType  int64 = -1
	unitStrands int64 = -2
)

// field says which fact a key states, in which unit, and which key wins (the lowest
// rank) when several state the same fact.
type field struct {
	slot slot
	rank uint8
	unit int64
}

// known is a field with the dialect its key betrays.
type known struct {
	field
	seen keySet
}

// keyTable holds every attribute key that driftline understands.
var keyTable = mergeKeys(commonKeys, otelKeys, openInferenceKeys, openLLMetryKeys, vercelKeys, otherKeys)

// requestBudgetRank is the highest rank of the keys that name the request's budget.
const requestBudgetRank = 2

func mergeKeys(tables ...map[string]field) map[string]known {
	out := make(map[string]known, 512)
	for _, t := range tables {
		for k, f := range t {
			if _, dup := out[k]; dup {
				panic("attribute key " + k + " is stated by two dialects")
			}
			out[k] = known{f, dialectOfKey(k)}
		}
	}
	return out
}

// commonKeys are the keys of docs/attributes.md and of OpenTelemetry's general
// conventions.
var commonKeys = map[string]field{
	"driftline.request.budget_ms":           {slotBudget, 0, ms},
	"driftline.request.budget_s":            {slotBudget, 1, sec},
	"request.budget_ms":                     {slotBudget, 2, ms},
	"agent.budget_ms":                       {slotBudget, 3, ms},
	"budget":                                {slotBudget, 4, sec},
	"driftline.request.deadline_unix_ms":    {slotDeadline, 0, ms},
	"request.deadline_unix_ms":              {slotDeadline, 1, ms},
	"driftline.request.received_at_unix_ms": {slotReceived, 0, ms},
	"request.received_at_unix_ms":           {slotReceived, 1, ms},
	"driftline.perceived.remaining_ms":      {slotPerceived, 0, ms},
	"agent.time_remaining_ms":               {slotPerceived, 1, ms},
	"time_remaining":                        {slotPerceived, 2, sec},
	"remaining":                             {slotPerceived, 3, sec},
	"driftline.agent.time_ms":               {slotAgentTime, 0, ms},
	"agent.internal_duration_ms":            {slotAgentTime, 1, ms},
	"agent.duration":                        {slotAgentTime, 2, sec},
	"driftline.timeout_ms":                  {slotTimeout, 0, ms},
	"gen_ai.request.timeout":                {slotTimeout, 2, sec},
	"timeout":                               {slotTimeout, 3, sec},
	"driftline.priority":                    {slotPriority, 0, 0},
	"request.priority":                      {slotPriority, 1, 0},
	"driftline.queue_ms":                    {slotQueue, 0, ms},
	"driftline.connect_ms":                  {slotConnect, 0, ms},
	"max_retries":                           {slotMaxRetries, 1, 0},
	"gen_ai.request.max_retries":            {slotMaxRetries, 0, 0},
	"max_attempts":                          {slotMaxAttempts, 0, 0},

	"http.request.method":       {slotHTTPMethod, 0, 0},
	"http.method":               {slotHTTPMethod, 1, 0},
	"url.full":                  {slotURL, 0, 0},
	"http.url":                  {slotURL, 1, 0},
	"url.path":                  {slotURL, 2, 0},
	"http.target":               {slotURL, 3, 0},
	"server.address":            {slotServer, 0, 0},
	"net.peer.name":             {slotServer, 1, 0},
	"http.host":                 {slotServer, 2, 0},
	"server.port":               {slotPort, 0, 0},
	"net.peer.port":             {slotPort, 1, 0},
	"http.response.status_code": {slotHTTPStatus, 0, 0},
	"http.status_code":          {slotHTTPStatus, 1, 0},
	"status_code":               {slotHTTPStatus, 2, 0},
	"rpc.system":                {slotRPC, 0, 0},
	"rpc.system.name":           {slotRPC, 1, 0},
	"error.type":                {slotErrorType, 0, 0},
	"exception.type":            {slotErrorType, 2, 0},
	"cloud.region":              {slotRegion, 0, 0},
	"aws.region":                {slotRegion, 1, 0},
	"http.request.resend_count": {slotResend, 0, 0},

	"http.request.header.x-stainless-retry-count":  {slotRetryCount, 0, 0},
	"http.request.header.x_stainless_retry_count":  {slotRetryCount, 1, 0},
	"http.request.header.x-stainless-read-timeout": {slotTimeout, 1, sec},
	"http.request.header.x_stainless_read_timeout": {slotTimeout, 4, sec},
	"x-stainless-read-timeout":                     {slotTimeout, 5, sec},
	"http.request.header.x-stainless-timeout":      {slotTimeout, 6, sec},
	"http.request.header.x_stainless_timeout":      {slotTimeout, 7, sec},
	"x-stainless-retry-count":                      {slotRetryCount, 2, 0},

	"SampleRate":           {slotSampleRate, 0, 0},
	"sampleRate":           {slotSampleRate, 1, 0},
	"sampling.rate":        {slotSampleRate, 2, 0},
	"sampling.probability": {slotSampleRatio, 0, 0},
	"sampling.ratio":       {slotSampleRatio, 1, 0},
	"sampler.param":        {slotSampleRatio, 2, 0},

	"attempt":                      {slotAttempt, 3, 0},
	"retry.attempt":                {slotAttempt, 4, 0},
	"gen_ai.retry.attempt":         {slotAttempt, 5, 0},
	"gen_ai.request.attempt":       {slotAttempt, 2, 0},
	"gen_ai.request.attempts":      {slotAttempt, 0, 0},
	"gen_ai.request.attempt_count": {slotAttempt, 1, 0},
	"backoff_seconds":              {slotBackoff, 0, sec},
	"backoff_ms":                   {slotBackoff, 1, ms},
	"gen_ai.retry.backoff_seconds": {slotBackoff, 2, sec},
	"gen_ai.retry.backoff_ms":      {slotBackoff, 3, ms},
	"retry.backoff_seconds":        {slotBackoff, 4, sec},
	"retry.backoff_ms":             {slotBackoff, 5, ms},
	"retry.delay":                  {slotBackoff, 6, sec},
	"retry.delay_ms":               {slotBackoff, 7, ms},
	"retry_delay_ms":               {slotBackoff, 8, ms},
	"chunk.type":                   {slotChunkType, 1, 0},
	"delta.type":                   {slotChunkType, 2, 0},
	"gen_ai.chunk.type":            {slotChunkType, 0, 0},
	"gen_ai.delta.type":            {slotChunkType, 3, 0},
	"type":                         {slotChunkType, 4, 0},
}

// Wanted says whether an attribute with this key, on a span or an event, is kept at
// ingestion: what driftline reads, and the configured keys. Keys that carry prompts,
// completions or tool arguments are never kept, even when configured.
func Wanted(key string, opt *Options) bool {
	if _, ok := keyTable[key]; ok {
		return true
	}
	if opt == nil {
		return false
	}
	for _, list := range opt.lists() {
		for _, k := range list {
			if k == key {
				return !carriesContent(key)
			}
		}
	}
	return false
}

func (o *Options) lists() [6][]string {
	return [6][]string{o.Attributes, o.BudgetKeys, o.ReceivedAtKeys, o.PerceivedRemainingKeys, o.AgentTimeKeys, o.PriorityKeys}
}

// contentWords mark keys whose values are or hold what people and models wrote.
var contentWords = []string{
	"prompt", "completion", "message", "content", "arguments", "input.value", "output.value",
	"entity.input", "entity.output", "tool.parameters", "system_instructions", "response.text",
	"toolcall.args", "toolcall.result", "call.result", "observation.input", "observation.output",
	"exception.stacktrace", "documents", "authorization", "cookie", "api-key", "api_key",
}

func carriesContent(key string) bool {
	key = strings.ToLower(key)
	for _, w := range contentWords {
		if strings.Contains(key, w) {
			return true
		}
	}
	return false
}

// facts is what a list of attributes states: for each slot the value of its
// best-ranked key, with that key's unit.
type facts struct {
	at   [numSlots]uint8 // 1 + index in list; 0 where nothing is stated
	seen keySet
	list []fact
}

type fact struct {
	val  *Value
	unit int64
	rank uint8
}

// keySet remembers which dialects' keys were seen.
type keySet uint16

// read fills f from attrs; extra holds the configured keys and may be nil.
func (f *facts) read(attrs []Attr, extra map[string]field) {
	for i := range attrs {
		a := &attrs[i]
		fd, ok := keyTable[a.Key]
		if !ok {
			if fd.field, ok = extra[a.Key]; !ok {
				continue
			}
		}
		f.seen |= fd.seen
		if a.Value.Type == ValueEmpty {
			continue
		}
		next := fact{&a.Value, fd.unit, fd.rank}
		switch k := f.at[fd.slot]; {
		case k == 0 && len(f.list) < 255:
			f.list = append(f.list, next)
			f.at[fd.slot] = uint8(len(f.list))
		case k > 0 && f.list[k-1].rank > fd.rank:
			f.list[k-1] = next
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

// by is the rank and unit of the key that stated s, which must be stated.
func (f *facts) by(s slot) (rank uint8, unit int64) {
	t := &f.list[f.at[s]-1]
	return t.rank, t.unit
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

// count is num as a pointer, nil when not stated.
func (f *facts) count(s slot) *int64 {
	if n, ok := f.num(s); ok {
		return ptr(n)
	}
	return nil
}

// ptr gives v an address. It keeps values that turn out unknown off the heap.
func ptr[T any](v T) *T { return &v }

// dur reads a duration or instant in nanoseconds by its key's unit.
func (f *facts) dur(s slot) (int64, bool) {
	v := f.val(s)
	if v == nil {
		return 0, false
	}
	_, unit := f.by(s)
	if unit == unitByType {
		unit = sec
		if v.Type == ValueInt {
			unit = ns
		}
	}
	if unit == unitStrands {
		unit = sec
		if f.seen&seenStrands != 0 {
			unit = ms
		}
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

// positive is dur for durations that make sense only above zero.
func (f *facts) positive(s slot) (int64, bool) {
	d, ok := f.dur(s)
	return d, ok && d > 0
}

// extraKeys turns the configured keys into fields. The unit of a duration follows the
// key's ending: _ms, _us, _ns; seconds otherwise. Instants are milliseconds unless the
// key ends in _s or _ns.
func (o *Options) extraKeys() map[string]field {
	if len(o.BudgetKeys)+len(o.ReceivedAtKeys)+len(o.PerceivedRemainingKeys)+len(o.AgentTimeKeys)+len(o.PriorityKeys) == 0 {
		return nil
	}
	out := map[string]field{}
	add := func(keys []string, s slot, plain int64) {
		for i, k := range keys {
			out[k] = field{s, uint8(min(100+i, 255)), unitOfKey(k, plain)}
		}
	}
	add(o.BudgetKeys, slotBudget, sec)
	add(o.ReceivedAtKeys, slotReceived, ms)
	add(o.PerceivedRemainingKeys, slotPerceived, sec)
	add(o.AgentTimeKeys, slotAgentTime, sec)
	add(o.PriorityKeys, slotPriority, unitNone)
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
