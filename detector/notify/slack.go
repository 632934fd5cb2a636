package notify

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"driftline/detector"
)

// Slack posts alerts to an incoming webhook of Slack, or of one that takes its format, one
// message per alert that changed. The text alone says all that matters, for receivers that
// do not draw blocks (https://api.slack.com/messaging/webhooks).
type Slack struct{ to endpoint }

// NewSlack returns a notifier for an incoming webhook's URL, all of which is secret but the
// host.
func NewSlack(url string) (*Slack, error) {
	to, err := newEndpoint(url, "Slack webhook", Access{})
	if err != nil {
		return nil, err
	}
	return &Slack{to}, nil
}

// Name names the receiver without its path.
func (s *Slack) Name() string { return s.to.name("slack") }

// Limits of Slack's blocks, in characters.
const (
	maxHeader  = 150
	maxSection = 3000
)

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

type slackBody struct {
	Text   string       `json:"text"`
	Blocks []slackBlock `json:"blocks"`
}

// Notify posts each alert that changed. Its error says which were taken.
func (s *Slack) Notify(ctx context.Context, alerts []detector.Alert) error {
	return each("slack", news(alerts), func(a detector.Alert) error {
		return s.to.post(ctx, slackMessage(a), map[string]string{"Idempotency-Key": a.Key()})
	})
}

// escape hides the three characters that Slack's text gives a meaning.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

func slackMessage(a detector.Alert) slackBody {
	state := "firing, " + a.Severity
	mark := ":warning:"
	switch {
	case a.State == detector.Resolved:
		state, mark = "resolved", ":white_check_mark:"
	case a.Severity == detector.Critical:
		mark = ":rotating_light:"
	}
	note := func(key string) string { return a.Annotations[key] }
	title := fmt.Sprintf("[%s] %s", state, note("summary"))
	body := slackBody{Blocks: []slackBlock{{Type: "header", Text: &slackText{"plain_text", cut(title, maxHeader)}}}}
	var lines []string
	section := func(text string) {
		if text == "" {
			return
		}
		lines = append(lines, text)
		body.Blocks = append(body.Blocks, slackBlock{Type: "section", Text: &slackText{"mrkdwn", cut(text, maxSection)}})
	}
	section(escape(note("description")))
	if a.State != detector.Resolved {
		for _, part := range []struct{ head, key string }{{"Likely cause", "cause"}, {"First", "do_first"}, {"Not", "do_not"}, {"Changed nearby", "changes"}} {
			if text := note(part.key); text != "" {
				section("*" + part.head + ":* " + escape(text))
			}
		}
	}
	var links []string
	for _, l := range []struct{ text, key string }{{"Evidence", "evidence_url"}, {"Runbook", "runbook_url"}, {"Dashboard", "dashboard_url"}} {
		if u := note(l.key); u != "" {
			links = append(links, fmt.Sprintf("<%s|%s>", escape(u), l.text))
		}
	}
	section(strings.Join(links, " · "))
	body.Blocks = append(body.Blocks, slackBlock{Type: "context", Elements: []slackText{{"mrkdwn", escape(fmt.Sprintf("%s · since %s UTC · %s", a.Detection, a.StartsAt.UTC().Format("2006-01-02 15:04"), a.Key()))}}})
	body.Text = mark + " *" + escape(title) + "*\n" + strings.Join(lines, "\n")
	return body
}
