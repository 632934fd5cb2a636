package ui

import (
	"fmt"
	"net/http"
	"time"
)

// Evaluation is what one round of the detector made of one detection.
type Evaluation struct {
	// At is when the round began, Watermark the end of the windows it judged.
	At, Watermark time.Time
	// Detection is empty for a round that failed; Error says why.
	Detection, Error string
	// Took is how long the detection judged, Round how long the whole round was.
	Took, Round time.Duration
	// Rows counts the cells the round read from storage.
	Rows uint64
	// Slices counts those judged, Breaching those of them that breach.
	Slices, Breaching int
	// Worst is the slice nearest to an alert, and what follows is its verdict.
	Worst, Service, Level, Reason string
	Value, Threshold              float64
	Unit                          string
	Samples                       uint64
}

func (s *server) evaluations(r *http.Request) (*view, error) {
	only := r.PathValue("detection")
	if _, ok := adviceFor[only]; only != "" && !ok {
		return nil, &problem{http.StatusNotFound, "There is no such detection", "All evaluations are listed at /evaluations."}
	}
	t := Table{
		Caption: "Last evaluations, the newest first",
		Head:    []string{"When", "Detection", "Verdict", "Nearest slice", "Value", "Fires at", "Samples", "Slices", "Took", "Round", "Rows read"}, Cards: true,
		Empty: "No round has been run since detectd started.",
	}
	for _, e := range s.Evaluations(only) {
		if e.Error != "" {
			failed := Cell{Text: "the round failed; /readyz and detectd's log say why", Class: "bad"}
			t.Rows = append(t.Rows, []Cell{textCell(formatTime(e.At)), textCell("all"), failed, textCell(""), number(unknown), number(unknown), number(unknown), number(unknown), number(unknown), number(formatDuration(e.Round)), number(fmt.Sprint(e.Rows))})
			continue
		}
		level := textCell(words(e.Level))
		if e.Reason != "" {
			level.Text += " (" + words(e.Reason) + ")"
		}
		if e.Breaching > 0 {
			level.Class = "bad"
		}
		t.Rows = append(t.Rows, []Cell{
			textCell(formatTime(e.At)), {Text: words(e.Detection), Href: "/evaluations/" + e.Detection}, level, textCell(e.Service + ": " + e.Worst),
			number(formatValue(e.Value, e.Unit)), number(formatValue(e.Threshold, e.Unit)), number(fmt.Sprint(e.Samples)),
			number(fmt.Sprintf("%d, %d breach", e.Slices, e.Breaching)), number(formatDuration(e.Took)), number(formatDuration(e.Round)), number(fmt.Sprint(e.Rows)),
		})
	}
	title := "Evaluations"
	if only != "" {
		title += ": " + detectionTitle(only)
	}
	return &view{name: "evaluations", Title: title, Section: "evaluations", Live: true, Body: t}, nil
}
