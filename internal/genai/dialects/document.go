package dialects

import "strings"

// Document is one dialect, or a user's changes to one.
type Document struct {
	// Dialect is its name, as it stands in the rows' column dialect: lower-case letters,
	// digits and underscores.
	Dialect string `yaml:"dialect"`
	// Title is its name in prose.
	Title string `yaml:"title"`
	// Source says where the facts come from.
	Source string `yaml:"source"`
	// Order decides which dialect names a span that shows signs of several, and the order
	// of rules of one step: the lowest first. A document without one goes first.
	Order int `yaml:"order"`
	// Unnamed marks conventions that any span may follow. They name no span.
	Unnamed bool `yaml:"unnamed"`
	// MarksStreams says that the dialect flags every streamed call, so that a missing
	// flag beside a first token is a contradiction.
	MarksStreams bool `yaml:"marks_streams"`
	// FirstTokenFrom is `attempt` where times to a first token count from the last attempt
	// even though the span holds all of them. Otherwise what fits is taken.
	FirstTokenFrom string      `yaml:"first_token_from"`
	Recognise      Recognise   `yaml:"recognise"`
	Attributes     []Attribute `yaml:"attributes"`
	Rules          []Rule      `yaml:"rules"`
	Events         []Event     `yaml:"events"`
	Subjects       Subjects    `yaml:"subjects"`
	// Content lists keys, or key prefixes that end in `*`, whose values people or models
	// wrote. `events` names of that kind begin with `event:`.
	Content []string `yaml:"content"`
	// Notes are what a reader of the documentation should know.
	Notes []string `yaml:"notes"`
	// from is the file or configuration key it was read from.
	from string
}

// Recognise is what betrays that a span is written in a dialect.
type Recognise struct {
	// Scopes are prefixes of instrumentation scope names.
	Scopes []string `yaml:"scopes"`
	// Keys are attribute keys, or prefixes that end in a dot; the longest that fits a key
	// decides. Only keys that state a fact are looked at.
	Keys []string `yaml:"keys"`
	// Providers are values of the attribute that means `provider`.
	Providers []string `yaml:"providers"`
}

// Attribute says which fact a key states.
type Attribute struct {
	Key   string `yaml:"key"`
	Means string `yaml:"means"`
	// Unit is the unit of durations and instants.
	Unit string `yaml:"unit"`
	// Precedence decides between keys that state one fact: the lowest wins.
	Precedence *int `yaml:"precedence"`
	// Header says that Key names a request header, which is read in every spelling in which
	// instrumentations capture it; see Keys.
	Header bool `yaml:"header"`
	// Only limits the row to spans that show this dialect.
	Only bool `yaml:"only"`
	// Disabled takes the row out.
	Disabled bool   `yaml:"disabled"`
	Note     string `yaml:"note"`
	at       place
	from     string
}

// Keys are the attribute keys of the row, the preferred first: Key itself, or for a header
// the spellings of OpenTelemetry's HTTP and RPC conventions with dashes and with
// underscores, the Vercel AI SDK's, and the header's bare name.
func (a *Attribute) Keys() []string {
	if !a.Header {
		return []string{a.Key}
	}
	under := strings.ReplaceAll(a.Key, "-", "_")
	return []string{
		"http.request.header." + a.Key, "http.request.header." + under,
		"rpc.request.metadata." + a.Key, "rpc.grpc.request.metadata." + a.Key,
		"ai.request.headers." + a.Key, "request.header." + a.Key, a.Key, under,
	}
}

// Rule says what a span is.
type Rule struct {
	// Of is what is looked at: `name` (the span's name), `first_word` (of that name), or
	// a meaning.
	Of string `yaml:"of"`
	// OrFirstWord looks at the name's first word where no attribute has the meaning.
	OrFirstWord bool `yaml:"or_first_word"`
	// Values are matched whole; one `*` stands for any text.
	Values     []string `yaml:"values"`
	IgnoreCase bool     `yaml:"ignore_case"`
	// As is what the span then is; see Classes.
	As string `yaml:"as"`
	// Step orders rules over all dialects: the lowest that fits decides. Within a step
	// whole values go before those with `*`.
	Step int `yaml:"step"`
	// Streamed is what the value says of streaming: `yes` or `no`.
	Streamed string `yaml:"streamed"`
	// With and Without are meanings that must or must not be stated.
	With    []string `yaml:"with"`
	Without []string `yaml:"without"`
	// Seen are dialects of which one must be betrayed.
	Seen []string `yaml:"seen"`
	// Instant wants a span without duration.
	Instant bool `yaml:"instant"`
	// NotHTTP leaves spans out that are named like HTTP calls.
	NotHTTP bool `yaml:"not_http"`
	// Replaces is the name of a parent that becomes structure, since this span says the
	// same more exactly.
	Replaces string `yaml:"replaces"`
	Disabled bool   `yaml:"disabled"`
	Note     string `yaml:"note"`
	at       place
	from     string
}

// Event says what a span event means.
type Event struct {
	// Name is matched whole; one `*` stands for any text.
	Name     string `yaml:"name"`
	Means    string `yaml:"means"`
	Disabled bool   `yaml:"disabled"`
	Note     string `yaml:"note"`
	at       place
	from     string
}

// Subjects are patterns of span names whose `*` is a tool's or agent's name.
type Subjects struct {
	Tool  []string `yaml:"tool"`
	Agent []string `yaml:"agent"`
}

// place is where a row stands, for messages.
type place struct {
	path string // attributes[3]
	line int    // 0 for unknown
}
