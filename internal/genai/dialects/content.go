package dialects

import (
	"strings"
	"sync"
)

// contentWords mark keys whose values are or hold what people and models wrote, in
// whatever dialect, and credentials.
var contentWords = []string{
	"prompt", "completion", "message", "content", "arguments", "input.value", "output.value",
	"entity.input", "entity.output", "tool.parameters", "system_instructions", "response.text",
	"toolcall.args", "toolcall.result", "call.result", "observation.input", "observation.output",
	"stacktrace", "stack_trace", "documents", "authorization", "cookie", "api-key", "api_key",
	"request.body", "response.body", "query.text", "url.query", "password", "secret",
}

// looksLikeContent says whether a key by its name holds what people or models wrote.
func looksLikeContent(key string) bool {
	key = strings.ToLower(key)
	for _, w := range contentWords {
		if strings.Contains(key, w) {
			return true
		}
	}
	return false
}

// eventPrefix marks rows of content that name an event.
const eventPrefix = "event:"

// ContentKeys are keys that carry content, by the rows of some documents.
type ContentKeys struct {
	whole map[string]bool
	begin []string
	parts [][2]string // before and after a `*` in the middle
}

// ContentOf collects the rows of docs.
func ContentOf(docs []Document) *ContentKeys {
	c := &ContentKeys{whole: map[string]bool{}}
	for i := range docs {
		for _, k := range docs[i].Content {
			before, after, open := strings.Cut(k, "*")
			switch {
			case strings.HasPrefix(k, eventPrefix):
			case !open:
				c.whole[k] = true
			case after == "":
				c.begin = append(c.begin, before)
			default:
				c.parts = append(c.parts, [2]string{before, after})
			}
		}
	}
	return c
}

// Listed says whether a row names the key.
func (c *ContentKeys) Listed(key string) bool {
	if c.whole[key] {
		return true
	}
	for _, b := range c.begin {
		if strings.HasPrefix(key, b) {
			return true
		}
	}
	for _, p := range c.parts {
		if strings.HasPrefix(key, p[0]) && strings.HasSuffix(key, p[1]) {
			return true
		}
	}
	return false
}

// Carries says whether a key holds what people or models wrote, by a row or by its name.
// Such a key is never copied, even when a user lists it.
func (c *ContentKeys) Carries(key string) bool {
	return c.Listed(key) || looksLikeContent(key)
}

var builtInContent = sync.OnceValue(func() *ContentKeys {
	docs, _ := BuiltIn() // without documents the words remain
	return ContentOf(docs)
})

var ids = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	docs, _ := BuiltIn()
	for _, d := range docs {
		for _, a := range d.Attributes {
			if typeOf[a.Means] == ID {
				for _, key := range a.Keys() {
					out[key] = true
				}
			}
		}
	}
	return out
})

// NamesSomebody says whether a key names a user or a tenant, by the built-in documents. Its
// value is never stored.
func NamesSomebody(key string) bool { return ids()[key] }

// ListedAsContent is ContentKeys.Listed for the built-in documents.
func ListedAsContent(key string) bool { return builtInContent().Listed(key) }
