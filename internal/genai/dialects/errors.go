package dialects

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const errorsFile = "errors.yaml"

// ErrorClass is one class of failures and what puts a failure into it.
type ErrorClass struct {
	Class   string `yaml:"class"`
	Meaning string `yaml:"meaning"`
	// Retried says whether such a failure is evidence that a try which follows is
	// another attempt.
	Retried bool `yaml:"retried"`
	// Statuses are HTTP statuses, and ranges such as 500-599. Single ones go before ranges.
	Statuses []string `yaml:"statuses"`
	// Names are whole names of errors, in lower case, without their package, and numbers
	// that are no HTTP status.
	Names []string `yaml:"names"`
	// Words are looked for anywhere in an error's name, in lower case.
	Words []string `yaml:"words"`
	// Examples are names and statuses that are of this class, for documentation.
	Examples []string `yaml:"examples"`
}

// ErrorClasses gives the embedded classes in the order in which their words are tried.
func ErrorClasses() ([]ErrorClass, error) {
	text, err := files.ReadFile(errorsFile)
	if err != nil {
		return nil, err
	}
	return parseErrors(text)
}

func parseErrors(text []byte) ([]ErrorClass, error) {
	var doc struct {
		Classes []ErrorClass `yaml:"classes"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", errorsFile, err)
	}
	var found []error
	taken := map[string]string{}
	for _, c := range doc.Classes {
		claim := func(what string) {
			if by, ok := taken[what]; ok {
				found = append(found, fmt.Errorf("%s: %s is of class %s and of class %s", errorsFile, what, by, c.Class))
			}
			taken[what] = c.Class
		}
		claim("class " + c.Class)
		for _, s := range c.Statuses {
			claim("status " + s)
			if _, _, err := StatusRange(s); err != nil {
				found = append(found, fmt.Errorf("%s: class %s: %w", errorsFile, c.Class, err))
			}
		}
		for _, w := range append(append([]string{}, c.Names...), c.Words...) {
			claim("word " + w)
			if w != strings.ToLower(w) {
				found = append(found, fmt.Errorf("%s: class %s: %q is not in lower case, so that nothing matches it", errorsFile, c.Class, w))
			}
		}
	}
	return doc.Classes, errors.Join(found...)
}

// StatusRange reads 503 or 500-599, as first and last status.
func StatusRange(s string) (first, last int, err error) {
	low, high, isRange := strings.Cut(s, "-")
	if first, err = strconv.Atoi(low); err == nil {
		last = first
		if isRange {
			last, err = strconv.Atoi(high)
		}
	}
	if err != nil || first < 100 || last < first || last > 999 {
		return 0, 0, fmt.Errorf("%q is no HTTP status or range of such", s)
	}
	return first, last, nil
}
