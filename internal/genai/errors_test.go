package genai

import (
	"strconv"
	"strings"
	"testing"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

func TestErrorClasses_ExamplesAndOrder(t *testing.T) {
	classes, err := dialects.ErrorClasses()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{rows.ClassTimeout: true, rows.ClassOverload: true, rows.ClassServer: true, rows.ClassClient: true, rows.ClassNetwork: true, rows.ClassCancelled: true, rows.ClassOther: true}
	for _, c := range classes {
		if !known[c.Class] {
			t.Errorf("rows know no class %q", c.Class)
		}
		delete(known, c.Class)
		if c.Meaning == "" || len(c.Examples) == 0 {
			t.Errorf("%s has no meaning or no examples", c.Class)
		}
		for _, e := range c.Examples {
			if got := ErrorClass(0, e, true); got != c.Class {
				t.Errorf("%s is %s, want %s", e, got, c.Class)
			}
		}
		for _, s := range c.Statuses {
			if n, err := strconv.Atoi(s); err == nil && ErrorClass(n, "anything", false) != c.Class {
				t.Errorf("status %d is %s, want %s", n, ErrorClass(n, "anything", false), c.Class)
			}
		}
	}
	if len(known) > 0 {
		t.Errorf("classes without a row: %v", known)
	}
	for status, want := range map[int]string{0: "", 200: "", 302: "", 399: "", 400: rows.ClassClient, 404: rows.ClassClient, 498: rows.ClassClient, 499: rows.ClassCancelled, 500: rows.ClassServer, 599: rows.ClassServer, 600: "", 5000: "", -1: ""} {
		if got := ErrorClass(status, "", false); got != want {
			t.Errorf("status %d is %q, want %q", status, got, want)
		}
	}
}

func TestErrorName_KeepsNamesAndNoText(t *testing.T) {
	for in, want := range map[string]string{
		"openai.RateLimitError": "openai.RateLimitError", "System.TimeoutException": "System.TimeoutException", "_OTHER": "_OTHER", "503": "503", "ECONNRESET": "ECONNRESET",
		"": "", "  ": "", " TimeoutError ": "TimeoutError",
		"Error: the user said hello":                         "Error",
		"ValueError: invalid literal for int(): 'my secret'": "ValueError",
		"openai.BadRequestError: Error code: 400 - {'x': 1}": "openai.BadRequestError",
		"RateLimitError('you wrote too much')":               "RateLimitError",
		"the user said hello":                                "_OTHER",
		"secret: the rest":                                   "_OTHER",
		"rate limit":                                         "_OTHER",
		`{"message":"hello"}`:                                "_OTHER",
		"Fehler für Anna":                                    "_OTHER",
		strings.Repeat("a", 200):                             "_OTHER",
		"System.Collections.Generic.List`1[[System.String]]": "System.Collections.Generic.List`1[[System.String]]",
	} {
		if got := ErrorName(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	// The class is read before the text is cut.
	res := analyze(t, chat("01", "", "m1", 0, 1, StatusError, kv("error.type", "the rate limit was reached by Anna")))
	if o := one(t, res); o.ErrorClass != rows.ClassOverload || o.ErrorType != "_OTHER" {
		t.Errorf("class %q, type %q", o.ErrorClass, o.ErrorType)
	}
}

func TestCopiedValuesLoseWhatTheirKeyDoesNotShow(t *testing.T) {
	d := defaultDialects()
	for _, c := range []struct{ key, in, want string }{
		{"url.full", "https://me:pass@api.example.com/v1/chat?q=hello#x", "https://api.example.com/v1/chat"},
		{"http.target", "/ask?q=hello", "/ask"},
		{"gen_ai.openai.api_base", "https://k@h:8080/v1", "https://h:8080/v1"},
		{"error.type", "Error: hello", "Error"},
		{"tenant", "a?b=c", "a?b=c"},
	} {
		if got := d.withoutContent(c.key, c.in); got != c.want {
			t.Errorf("%s of %q becomes %q, want %q", c.key, c.in, got, c.want)
		}
	}
	for name, want := range map[string]string{"GET /ask?q=hello&x=1": "GET /ask", "chat m1": "chat m1", "what now?": "what now?"} {
		if got := SpanName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if d.CarriesContent("gen_ai.usage.prompt_tokens") || !d.CarriesContent("gen_ai.prompt.0.content") || !d.CarriesContent("gcp.vertex.agent.llm_request") {
		t.Error("a count of tokens is no content; a prompt and a request are")
	}
}
