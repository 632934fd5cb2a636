package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"driftline/docs/runbooks"
)

// runbookLink is a link from one runbook to another, as it stands in the Markdown.
var runbookLink = regexp.MustCompile(`href="([a-z0-9_]+)\.md"`)

// loadRunbooks makes the pages of the built-in runbooks: detection to HTML. The Markdown
// is compiled in, so it is trusted; raw HTML in it is left out all the same.
func loadRunbooks() (map[string]template.HTML, error) {
	names, err := fs.Glob(runbooks.Pages, "*.md")
	if err != nil {
		return nil, err
	}
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	out := map[string]template.HTML{}
	for _, name := range names {
		text, err := runbooks.Pages.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := md.Convert(text, &b); err != nil {
			return nil, fmt.Errorf("runbook %s: %w", name, err)
		}
		out[strings.TrimSuffix(name, ".md")] = template.HTML(runbookLink.ReplaceAllString(b.String(), `href="/runbooks/$1"`))
	}
	return out, nil
}

// index is the name of the page that lists the runbooks.
const index = "README"

func (s *server) runbook(r *http.Request) (*view, error) {
	name := r.PathValue("detection")
	if name == "" {
		name = index
	}
	page, ok := s.runbooks[name]
	if !ok || r.PathValue("detection") == index {
		return nil, &problem{http.StatusNotFound, "There is no such runbook", "The runbooks are listed at /runbooks."}
	}
	title := "Runbooks"
	if name != index {
		title = "Runbook: " + detectionTitle(name)
	}
	return &view{name: "runbook", Title: title, Body: page}, nil
}
