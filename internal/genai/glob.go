package genai

import "strings"

// glob matches a text whole; a `*` stands for any text.
type glob struct {
	before, after string
	open          bool
}

func newGlob(pattern string) glob {
	before, after, open := strings.Cut(pattern, "*")
	return glob{before, after, open}
}

func (g *glob) match(s string) bool {
	if !g.open {
		return s == g.before
	}
	return len(s) >= len(g.before)+len(g.after) && strings.HasPrefix(s, g.before) && strings.HasSuffix(s, g.after)
}

// rest is what stands for the `*`, which must be some text.
func (g *glob) rest(s string) (string, bool) {
	if len(s) > len(g.before)+len(g.after) && g.match(s) {
		return s[len(g.before) : len(s)-len(g.after)], true
	}
	return "", false
}

// firstBytes are the bytes with which some pattern begins. Most spans of a service are
// no GenAI spans, and this spares them the patterns.
type firstBytes [256]bool

func (b *firstBytes) add(pattern string) {
	if pattern != "" && pattern[0] != '*' {
		b[pattern[0]] = true
		return
	}
	for i := range b {
		b[i] = true
	}
}
