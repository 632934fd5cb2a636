package strictconf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"

	"go.opentelemetry.io/collector/confmap"
)

// Read fills cfg, a pointer to a component's settings with their defaults, from conf. It is to
// be called from the Unmarshal method of cfg. Where keys are unknown or values cannot be read, the error names
// each of them, and with them all that the Validate methods of cfg and its parts find wrong
// with what could be read. What rests on a value that could not be read is left out, since
// its default is no fault of the file. Without such keys and values nothing is judged: the
// collector does so itself afterwards.
func Read(conf *confmap.Conf, cfg any) error {
	err := errors.Join(conf.Unmarshal(cfg), fractions(conf, cfg))
	if err == nil {
		return nil
	}
	problems := []error{err}
	if wrong := confmap.Validate(cfg); wrong != nil {
		unread := unreadKeys(err)
		for line := range strings.SplitSeq(wrong.Error(), "\n") {
			if !names(line, unread) {
				problems = append(problems, errors.New(line))
			}
		}
	}
	return errors.Join(problems...)
}

// fractions names the keys of whole numbers for which conf gives a fraction, which decoding
// would cut off without a word.
func fractions(conf *confmap.Conf, cfg any) error {
	var problems []error
	t := reflect.TypeOf(cfg).Elem()
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("mapstructure"), ",")
		k := t.Field(i).Type.Kind()
		if key == "" || k < reflect.Int || k > reflect.Uint64 {
			continue
		}
		if f, ok := conf.Get(key).(float64); ok && f != math.Trunc(f) {
			problems = append(problems, fmt.Errorf("'%s' must be a whole number, is %v", key, f))
		}
	}
	return errors.Join(problems...)
}

// namedKey is how decoding names the key of a value that it could not read.
var namedKey = regexp.MustCompile(`^'([^']+)' `)

// unreadKeys lists the keys whose values are still their defaults.
func unreadKeys(err error) []string {
	var keys []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if m := namedKey.FindStringSubmatch(line); m != nil && !strings.Contains(line, "' has invalid keys: ") {
			keys = append(keys, m[1])
		}
	}
	return keys
}

// word is a key as problems write it: with dots, colons or brackets for what lies deeper.
var word = regexp.MustCompile(`[A-Za-z0-9_.:\[\]]+`)

// names says whether a problem is about one of the keys, or about something below or above one.
func names(problem string, keys []string) bool {
	for _, w := range word.FindAllString(problem, -1) {
		w = normal(w)
		for _, k := range keys {
			if k = normal(k); w == k || below(w, k) || below(k, w) {
				return true
			}
		}
	}
	return false
}

func below(inner, outer string) bool {
	return outer != "" && strings.HasPrefix(inner, outer) && strings.ContainsRune(".[", rune(inner[len(outer)]))
}

// normal writes a key in one way, whichever separator it has.
func normal(key string) string {
	return strings.Trim(strings.ReplaceAll(key, "::", "."), ".:")
}
