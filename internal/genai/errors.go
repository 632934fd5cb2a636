package genai

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"driftline/internal/genai/dialects"
	"driftline/internal/rows"
)

// errorTable is dialects/errors.yaml, ready for use.
type errorTable struct {
	statuses [1000]string
	names    map[string]string
	words    []errorWord
	retried  map[string]bool
}

type errorWord struct{ word, class string }

var errorClasses = sync.OnceValue(func() *errorTable {
	classes, err := dialects.ErrorClasses()
	if err != nil {
		panic(fmt.Sprintf("the built-in error classes are wrong: %v", err)) // a test holds that they are not
	}
	t := &errorTable{names: map[string]string{}, retried: map[string]bool{}}
	for _, single := range []bool{false, true} { // single statuses overwrite ranges
		for _, c := range classes {
			for _, s := range c.Statuses {
				first, last, err := dialects.StatusRange(s)
				if err != nil || (first == last) != single {
					continue
				}
				for n := first; n <= last; n++ {
					t.statuses[n] = c.Class
				}
			}
		}
	}
	for _, c := range classes {
		t.retried[c.Class] = c.Retried
		for _, n := range c.Names {
			t.names[n] = c.Class
		}
		for _, w := range c.Words {
			t.words = append(t.words, errorWord{w, c.Class})
		}
	}
	return t
})

// ErrorClass gives the rows.Class constant for a failure, or "" when nothing failed.
// httpStatus is the last HTTP status seen (0 for none), errorType the
// instrumentation's word for the error or an exception's type, and statusError the
// span's own error status. The table is dialects/errors.yaml.
func ErrorClass(httpStatus int, errorType string, statusError bool) string {
	if c := classOfStatus(httpStatus); c != "" {
		return c
	}
	if errorType == "" {
		if statusError {
			return rows.ClassOther
		}
		return ""
	}
	t := errorClasses()
	if n, err := strconv.Atoi(strings.TrimSpace(errorType)); err == nil {
		return cmp.Or(classOfStatus(n), t.names[strconv.Itoa(n)], rows.ClassOther)
	}
	word := strings.ToLower(errorType)
	if c, ok := t.names[word[strings.LastIndexAny(word, ".:")+1:]]; ok {
		return c
	}
	for _, w := range t.words {
		if strings.Contains(word, w.word) {
			return w.class
		}
	}
	return rows.ClassOther
}

func classOfStatus(status int) string {
	t := errorClasses()
	if status < 0 || status >= len(t.statuses) {
		return ""
	}
	return t.statuses[status]
}

// retryable says whether a failure of this class is evidence that a try which follows
// is another attempt. A rejected request or a cancelled one is not tried again as is.
func retryable(class string) bool { return errorClasses().retried[class] }

// errorText stands for an error of which only free text is known, by OpenTelemetry's word
// for errors without a type.
const errorText = "_OTHER"

// maxErrorType bounds the instrumentation's word for an error, in bytes.
const maxErrorType = 128

// ErrorName is what may be kept of an error's type. Some write the whole message there,
// which can repeat what people and models wrote. An identifier stays; of text behind an
// exception's name only the name stays; other text becomes _OTHER.
func ErrorName(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if identifier(s) {
		return clip(s, maxErrorType)
	}
	name, _, found := strings.Cut(s, ":")
	if !found {
		name, _, _ = strings.Cut(s, "(")
	}
	if name = strings.TrimSpace(name); identifier(name) && namesException(name) {
		return clip(name, maxErrorType)
	}
	return errorText
}

// identifier says whether s is built like a type's or a code's name.
func identifier(s string) bool {
	if len(s) == 0 || len(s) > maxErrorType {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("_.-:$/+#`&*[],", c) >= 0:
		default:
			return false
		}
	}
	return true
}

func namesException(s string) bool {
	for _, end := range [...]string{"Error", "Exception", "Failure", "Fault", "Timeout", "Exit", "Interrupt", "_error", "_exception"} {
		if strings.HasSuffix(s, end) {
			return true
		}
	}
	return false
}
