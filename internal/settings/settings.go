package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"driftline/detector"
)

// document is the shape of the file.
type document struct {
	detector.Config `yaml:",inline"`
	Shadow          []string   `yaml:"shadow"`
	Overrides       []override `yaml:"overrides"`
}

// override is the shape of one override: what it matches, and only the settings that
// differ from the general ones.
type override struct {
	detector.Match `yaml:",inline"`
	detector.Rules `yaml:",inline"`
	Shadow         []string `yaml:"shadow"`
}

// Load reads the file at path. An empty path gives the defaults.
func Load(path string) (detector.Config, error) {
	if path == "" {
		return detector.DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return detector.Config{}, fmt.Errorf("read the settings: %w", err)
	}
	cfg, err := Parse(text)
	if err != nil {
		return detector.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// Parse reads a file's text. What the text does not set keeps its default, and what an
// override does not set is as in the rest of the file. The error names every problem.
func Parse(text []byte) (detector.Config, error) {
	cfg := detector.DefaultConfig()
	root, err := parse(text)
	if err != nil || root == nil {
		return cfg, err
	}
	var found problems
	checkKeys(root, fieldsOf[document](), "", &found)
	doc := document{Config: cfg}
	decode(root, &doc, "", &found)
	cfg = doc.Config
	cfg.Shadow = set(doc.Shadow)
	for i, node := range children(root, "overrides") {
		o := override{Rules: cfg.Rules}
		if doc.Shadow != nil {
			o.Shadow = doc.Shadow
		}
		decode(node, &o, fmt.Sprintf("overrides[%d].", i), &found)
		rules := o.Rules
		rules.Shadow = set(o.Shadow)
		cfg.Overrides = append(cfg.Overrides, detector.Override{Match: o.Match, Rules: rules})
	}
	found.judge(cfg.Validate())
	return cfg, errors.Join(found.errs...)
}

// parse gives the file's top mapping, nil for an empty file.
func parse(text []byte) (*yaml.Node, error) {
	var file yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("this is no YAML: %w", err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one document: keep one")
	}
	root := file.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root, nil
	case root.Tag == "!!null":
		return nil, nil
	}
	return nil, fmt.Errorf("line %d: want a mapping of settings at the top", root.Line)
}

// decode fills into from node and collects the problems, which name lines.
func decode(node *yaml.Node, into any, at string, found *problems) {
	// The overrides are decoded one by one, on top of the general settings.
	rest := *node
	rest.Content = nil
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != "overrides" {
			rest.Content = append(rest.Content, node.Content[i], node.Content[i+1])
		}
	}
	err := rest.Decode(into)
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) { // of what is not looked at key by key
		for _, e := range wrong.Errors {
			line, what, _ := strings.Cut(readable(e), ": ")
			if at != "" {
				what = strings.TrimSuffix(at, ".") + ": " + what
			}
			found.add("%s: %s", line, what)
		}
	} else if err != nil {
		found.errs = append(found.errs, err)
	}
}

// readable replaces Go's names in yaml's messages.
func readable(message string) string {
	return settingsType.ReplaceAllString(strings.NewReplacer(
		"cannot unmarshal", "cannot read", "!!str ", "the text ", "!!int ", "the number ", "!!float ", "the number ", "!!bool ", "", "!!map", "a mapping", "!!seq", "a list",
		"into time.Duration", "as a duration such as 30s or 5m", "into uint64", "as a whole number of 0 or more", "into int", "as a whole number",
		"into float64", "as a number", "into []string", "as a list of names", "into string", "as text",
	).Replace(message), "as settings")
}

var settingsType = regexp.MustCompile(`into (detector|settings)\.\w+`)

// children lists the items of the list under key.
func children(root *yaml.Node, key string) []*yaml.Node {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key && root.Content[i+1].Kind == yaml.SequenceNode {
			return root.Content[i+1].Content
		}
	}
	return nil
}

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// Text writes cfg as a file that gives cfg again: every key with its value.
func Text(cfg detector.Config) ([]byte, error) {
	doc := document{Config: cfg, Shadow: names(cfg.Shadow)}
	for _, o := range cfg.Overrides {
		doc.Overrides = append(doc.Overrides, override{Match: o.Match, Rules: o.Rules, Shadow: names(o.Shadow)})
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func names(set map[string]bool) []string {
	out := []string{}
	for n, on := range set {
		if on {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
