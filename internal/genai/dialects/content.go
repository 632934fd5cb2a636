package dialects

import "strings"

// contentWords mark keys whose values are or hold what people and models wrote, in
// whatever dialect.
var contentWords = []string{
	"prompt", "completion", "message", "content", "arguments", "input.value", "output.value",
	"entity.input", "entity.output", "tool.parameters", "system_instructions", "response.text",
	"toolcall.args", "toolcall.result", "call.result", "observation.input", "observation.output",
	"exception.stacktrace", "documents", "authorization", "cookie", "api-key", "api_key",
}

// CarriesContent says whether a key by its name holds what people or models wrote.
// Such a key is never copied, even when a user lists it.
func CarriesContent(key string) bool {
	key = strings.ToLower(key)
	for _, w := range contentWords {
		if strings.Contains(key, w) {
			return true
		}
	}
	return false
}
