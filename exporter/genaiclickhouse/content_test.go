package genaiclickhouse

import (
	"strings"
	"testing"

	"driftline/internal/genai/dialects"
)

// TestNoDialectsContentIsAllowedOnThinSpans holds the allow-list to every dialect's rows.
func TestNoDialectsContentIsAllowedOnThinSpans(t *testing.T) {
	docs, err := dialects.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, d := range docs {
		for _, key := range d.Content {
			if strings.HasPrefix(key, "event:") {
				continue
			}
			keys++
			if key = strings.ReplaceAll(key, "*", "0.x"); !holdsContent(key) {
				t.Errorf("%s of %s may be kept", key, d.Dialect)
			}
		}
	}
	if keys < 100 {
		t.Errorf("only %d keys", keys)
	}
	for _, key := range DefaultSpanAttributes() {
		if holdsContent(key) {
			t.Errorf("the default key %s is content", key)
		}
	}
}
