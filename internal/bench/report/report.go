// Package report keeps benchmark results in a page: each benchmark owns one marked section
// and replaces it alone, so that they can run apart and in any order.
package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var sectionName = regexp.MustCompile(`^[a-z0-9-]+$`)

func markers(section string) (begin, end string) {
	return "<!-- begin " + section + ": generated, do not edit -->", "<!-- end " + section + " -->"
}

// Replace puts body between the markers of a section of the file at path, which may be any
// text otherwise. A section that is not there yet is appended; a file that is not there is
// made. The name is of lower-case letters, digits and hyphens. A section with a begin and no
// end after it, or one that stands twice, is an error and leaves the file as it was.
func Replace(path, section, body string) error {
	if !sectionName.MatchString(section) {
		return fmt.Errorf("report section %q: want lower-case letters, digits and hyphens", section)
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the report: %w", err)
	}
	text, err := replace(string(old), section, body)
	if err != nil {
		return fmt.Errorf("report %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	// A benchmark that is stopped must not leave half a page behind.
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func replace(text, section, body string) (string, error) {
	begin, end := markers(section)
	block := begin + "\n" + strings.Trim(body, "\n") + "\n" + end
	switch strings.Count(text, begin) {
	case 0:
		if text != "" {
			text = strings.TrimRight(text, "\n") + "\n\n"
		}
		return text + block + "\n", nil
	case 1:
	default:
		return "", fmt.Errorf("section %q begins twice: delete one", section)
	}
	before, rest, _ := strings.Cut(text, begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("section %q has no line %q after its begin: put it back", section, end)
	}
	return before + block + after, nil
}

// Table renders a Markdown table. Cells are text; a pipe in one is escaped. A column whose
// header begins with "#", which is not shown, or ends with a unit in brackets is aligned
// to the right, the others to the left.
func Table(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ") + " ")
		}
		b.WriteString("|\n")
	}
	names, rules := make([]string, len(header)), make([]string, len(header))
	for i, h := range header {
		names[i], rules[i] = strings.TrimPrefix(h, "#"), "---"
		if strings.HasPrefix(h, "#") || strings.HasSuffix(h, ")") {
			rules[i] = "---:"
		}
	}
	line(names)
	line(rules)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}
