package detector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksInAlertsLeadToPages(t *testing.T) {
	for _, good := range []string{"", "https://g.example.com/d?x=1", "http://127.0.0.1:3000"} {
		cfg := DefaultConfig()
		cfg.DashboardURL, cfg.RunbookURL = good, good
		require.NoError(t, cfg.Validate(), good)
	}
	for _, bad := range []string{"javascript:alert(1)", "::", "g.example.com/d", "https://"} {
		cfg := DefaultConfig()
		cfg.DashboardURL, cfg.RunbookURL = bad, bad
		err := cfg.Validate()
		require.ErrorContains(t, err, "dashboard_url")
		require.ErrorContains(t, err, "runbook_url")
	}
}
