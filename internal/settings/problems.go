package settings

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// problems are what is wrong with a file. Its keys and its values are judged together, so
// that one look at the errors mends all of them.
type problems struct {
	errs []error
	// open are the keys whose values are not known, since they were misspelt or cannot be
	// read. A value of theirs would be a default that nobody wrote.
	open []string
}

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *problems) unsure(keys ...string) { p.open = append(p.open, keys...) }

// judge adds the problems of the values that could be read. Those that rest on a value
// which is not known are left out: its own problem is named.
func (p *problems) judge(err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	for _, e := range all {
		for _, line := range strings.Split(e.Error(), "\n") {
			if !p.restsOnUnknown(line) {
				p.errs = append(p.errs, errors.New(line))
			}
		}
	}
}

func (p *problems) restsOnUnknown(problem string) bool {
	inherited := fromOverride.ReplaceAllString(problem, "") // an override has the general values
	return p.names(problem) || p.names(inherited)
}

var fromOverride = regexp.MustCompile(`overrides\[\d+\]\.`)

// names says whether a problem names one of the keys that are not known.
func (p *problems) names(problem string) bool {
	for _, key := range p.open {
		for at := 0; key != ""; {
			k := strings.Index(problem[at:], key)
			if k < 0 {
				break
			}
			from, to := at+k, at+k+len(key)
			whole := strings.HasSuffix(key, ":") || to == len(problem) || strings.ContainsRune(" :.,[", rune(problem[to]))
			if whole && (from == 0 || problem[from-1] == ' ') {
				return true
			}
			at = to
		}
	}
	return false
}
