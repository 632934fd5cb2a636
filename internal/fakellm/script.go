package fakellm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is a way for an attempt to end without a complete answer.
type Fault string

// The faults a step can have.
const (
	// FaultNone lets the answer complete.
	FaultNone Fault = ""
	// FaultStall sends nothing more and keeps the connection open until the client gives up or the server closes.
	FaultStall Fault = "stall"
	// FaultReset closes the connection with a TCP reset.
	FaultReset Fault = "reset"
)

const (
	defaultTokens = 16
	maxTokens     = 100_000
	maxSteps      = 64
	maxStepDelay  = time.Hour
)

// Step says how one attempt is answered.
type Step struct {
	// Status is the HTTP status, 200 to 599.
	Status int
	// HeaderDelay passes before the status line is sent.
	HeaderDelay time.Duration
	// FirstTokenDelay passes between the headers and the first token of a stream. A plain answer spends it before its headers.
	FirstTokenDelay time.Duration
	// TokenInterval passes between two tokens. A plain answer spends it (Tokens-1 times) before its headers.
	TokenInterval time.Duration
	// Tokens is the number of output tokens of a 200 answer.
	Tokens int
	// Fault ends the attempt early. Without FaultAfter it strikes before the status line.
	Fault Fault
	// FaultAfter, when not negative, lets a stream send that many tokens before Fault strikes.
	FaultAfter int
	// RetryAfter is sent verbatim as the Retry-After header when not empty.
	RetryAfter string
	// Pause passes once in a stream that then goes on, on top of TokenInterval, after PauseAfter tokens.
	Pause time.Duration
	// PauseAfter is the number of tokens before Pause.
	PauseAfter int
	// Tools makes an answer ask for a call of each tool named, all at once; none when empty.
	Tools []string
	// Turn is the call of a conversation that the step answers, from 0.
	Turn int
}

// Script is the answers to the attempts of one call, in order. Attempts beyond the last step get the last step again.
// A script for several calls of one conversation, such as an agent's, has the steps of each turn, in order of turns.
type Script []Step

// ForTurn returns the steps that answer a conversation's call of this number, from 0; calls beyond the last turn get
// the last turn's again.
func (s Script) ForTurn(turn int) Script {
	turn = max(0, min(turn, s[len(s)-1].Turn))
	from := slices.IndexFunc(s, func(st Step) bool { return st.Turn == turn })
	to := from
	for to < len(s) && s[to].Turn == turn {
		to++
	}
	return s[from:to]
}

// At returns the step for an attempt; the first attempt is 0. It panics on an empty script, which ParseScript never returns.
func (s Script) At(attempt int) Step {
	return s[max(0, min(attempt, len(s)-1))]
}

// DefaultScript answers every attempt with 200 at once.
func DefaultScript() Script { return Script{newStep()} }

func newStep() Step {
	return Step{Status: http.StatusOK, Tokens: defaultTokens, FaultAfter: -1}
}

// ParseScript reads the compact notation of a script: steps separated by commas, each a status or a fault, with
// an optional delay before the headers and options after semicolons:
//
//	503,503,200
//	503@120ms,429;retry-after=1,200@50ms;ttft=300ms;gap=10ms;tokens=40
//	stall,reset,200
//	200;tokens=20;stall-after=5
//	200;tokens=20;pause=400ms;pause-after=5
//	200;tool=lookup
//	200;tool=lookup+search|503,200
//
// Options: ttft and gap (durations), tokens, stall-after and reset-after (tokens sent before the fault, streams only),
// pause (duration) and pause-after (tokens sent before it, streams only), retry-after (header value), tool (names of the
// tools to ask for at once, joined by +). A bar begins the steps of the conversation's next call, which is known by the
// answers that the request repeats. The error names every wrong step, counted from 1.
func ParseScript(text string) (Script, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New(`script is empty: give at least one step, such as "503,503,200"`)
	}
	if n := 1 + strings.Count(text, ",") + strings.Count(text, "|"); n > maxSteps {
		return nil, fmt.Errorf("script has %d steps, more than the %d allowed", n, maxSteps)
	}
	var script Script
	var errs []error
	n := 0
	for turn, steps := range strings.Split(text, "|") {
		for part := range strings.SplitSeq(steps, ",") {
			n++
			step, err := parseStep(strings.TrimSpace(part))
			if err != nil {
				errs = append(errs, fmt.Errorf("script step %d (%q): %w", n, part, err))
				continue
			}
			step.Turn = turn
			script = append(script, step)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return script, nil
}

func parseStep(text string) (Step, error) {
	step := newStep()
	fields := strings.Split(text, ";")
	head, delay, hasDelay := strings.Cut(strings.TrimSpace(fields[0]), "@")
	switch Fault(head) {
	case FaultStall, FaultReset:
		step.Fault = Fault(head)
	default:
		status, err := strconv.Atoi(head)
		if err != nil || status < 200 || status > 599 {
			return Step{}, fmt.Errorf("%q is neither a status from 200 to 599 nor stall nor reset", head)
		}
		step.Status = status
	}
	if hasDelay {
		d, err := parseDelay(delay)
		if err != nil {
			return Step{}, err
		}
		step.HeaderDelay = d
	}
	for _, field := range fields[1:] {
		if err := step.setOption(strings.TrimSpace(field)); err != nil {
			return Step{}, err
		}
	}
	if (step.Pause > 0) != (step.PauseAfter > 0) {
		return Step{}, errors.New("pause and pause-after need each other")
	}
	return step, nil
}

func (s *Step) setOption(field string) error {
	key, value, ok := strings.Cut(field, "=")
	if !ok || value == "" {
		return fmt.Errorf("option %q is not of the form key=value", field)
	}
	var err error
	switch key {
	case "ttft":
		s.FirstTokenDelay, err = parseDelay(value)
	case "gap":
		s.TokenInterval, err = parseDelay(value)
	case "tokens":
		s.Tokens, err = parseCount(value, 1)
	case "stall-after":
		s.Fault = FaultStall
		s.FaultAfter, err = parseCount(value, 0)
	case "reset-after":
		s.Fault = FaultReset
		s.FaultAfter, err = parseCount(value, 0)
	case "retry-after":
		s.RetryAfter = value
	case "pause":
		s.Pause, err = parseDelay(value)
	case "pause-after":
		s.PauseAfter, err = parseCount(value, 1)
	case "tool":
		s.Tools = strings.Split(value, "+")
		if slices.Contains(s.Tools, "") {
			err = fmt.Errorf("%q has an empty tool name", value)
		}
	default:
		return fmt.Errorf("option %q is unknown: use ttft, gap, tokens, stall-after, reset-after, pause, pause-after, retry-after or tool", key)
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", key, err)
	}
	return nil
}

func parseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxStepDelay {
		return 0, fmt.Errorf("%q is not a duration from 0 to %s, such as 120ms", text, maxStepDelay)
	}
	return d, nil
}

func parseCount(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > maxTokens {
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", text, least, maxTokens)
	}
	return n, nil
}
