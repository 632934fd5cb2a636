package genai

import (
	"cmp"
	"encoding/json"
	"math"
	"net"
	"net/url"
	"strings"

	"driftline/internal/rows"
)

// fillTokens counts each token once: an inner span's count stands for the span around
// it, and tries of one operation add up.
func (a *analysis) fillTokens(o *op, t *rows.Tokens) {
	into := [...]**int64{&t.InputTokens, &t.OutputTokens, &t.CachedTokens, &t.ReasoningTokens}
	for _, m := range o.members {
		inner := a.inner[m]
		for i := range tokenFacts {
			f := &tokenFacts[i]
			for k := len(inner); k >= 0; k-- {
				span := &a.nodes[m]
				if k > 0 {
					span = &a.nodes[inner[k-1]]
				}
				if n, ok := span.f.num(f.slot); ok {
					a.addCount(into[i], &n)
					break
				}
				if n := usageJSON(span.f.str(slotUsageJSON), f.json); n != nil {
					a.addCount(into[i], n)
					break
				}
			}
		}
	}
}

// tokenFacts are the counts of rows.Tokens, and their names in usage text.
var tokenFacts = [...]struct {
	slot slot
	json []string
}{
	{slotInputTokens, []string{"input", "prompt_tokens", "input_tokens"}},
	{slotOutputTokens, []string{"output", "completion_tokens", "output_tokens"}},
	{slotCachedTokens, []string{"input_cached_tokens", "cache_read_input_tokens"}},
	{slotReasoningTokens, []string{"output_reasoning_tokens"}},
}

// usageJSON reads a count from Langfuse's usage, which is JSON text with free keys.
func usageJSON(text string, keys []string) *int64 {
	if text == "" || len(text) > 4096 {
		return nil
	}
	var usage map[string]any
	if json.Unmarshal([]byte(text), &usage) != nil {
		return nil
	}
	for _, k := range keys {
		if f, ok := usage[k].(float64); ok && f >= 0 && f < 1<<53 {
			n := int64(math.Round(f))
			return &n
		}
	}
	return nil
}

// endpointOf is where the operation's calls went, by its own spans or its last try's.
func (a *analysis) endpointOf(o *op, sources []*node) (address, region string) {
	for _, n := range sources {
		e, r := endpoint(n)
		address, region = cmp.Or(address, e), cmp.Or(region, r)
	}
	if t := o.lastTry(); t != nil && t.node >= 0 && (address == "" || region == "") {
		e, r := endpoint(&a.nodes[t.node])
		address, region = cmp.Or(address, e), cmp.Or(region, r)
	}
	return address, region
}

// endpoint is the server's address, with the port where it is not the scheme's own, and
// the region where the span or a cloud's host name states it. Some write a whole URL.
func endpoint(n *node) (address, region string) {
	host := n.f.str(slotServer)
	port, _ := n.f.num(slotPort)
	if host == "" || strings.Contains(host, "://") {
		from := host
		if from == "" {
			from = n.f.str(slotURL)
		}
		if from == "" {
			return "", clip(n.f.str(slotRegion), 64)
		}
		u, err := url.Parse(from)
		if err != nil || u.Host == "" {
			return "", clip(n.f.str(slotRegion), 64)
		}
		host = u.Host
	}
	host, _, _ = strings.Cut(host, "/")
	host = host[strings.LastIndexByte(host, '@')+1:] // credentials
	if strings.Contains(host, ":") {
		if h, p, err := net.SplitHostPort(host); err == nil {
			host = h
			if port == 0 && p != "443" && p != "80" {
				host = net.JoinHostPort(h, p)
			}
		}
	}
	if port > 0 && port != 443 && port != 80 && port < 65536 {
		host = net.JoinHostPort(host, n.f.str(slotPort))
	}
	region = n.f.str(slotRegion)
	if region == "" {
		region = regionOf(host)
	}
	return clip(strings.ToLower(host), 128), clip(region, 64)
}

func regionOf(host string) string {
	if r, ok := strings.CutSuffix(host, "-aiplatform.googleapis.com"); ok {
		return r
	}
	if rest, ok := strings.CutPrefix(host, "bedrock-runtime."); ok {
		r, _, _ := strings.Cut(rest, ".")
		return r
	}
	return ""
}
