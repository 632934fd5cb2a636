package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"driftline/detector"
)

func TestAllWrongSettingsAreReported(t *testing.T) {
	o := Options{UIListen: "0.0.0.0:8686", AllowedHosts: []string{"a/b"}, Alertmanagers: []string{"x"}, Webhooks: []string{"y"}, Detector: detector.DefaultConfig()}
	err := o.Validate()
	for _, flag := range []string{"--external-url", "--allowed-host", "--alertmanager", "--webhook"} {
		require.ErrorContains(t, err, flag)
	}
	o = Options{UIListen: "0.0.0.0:8686", ExternalURL: "http://driftline.example.com", Detector: detector.DefaultConfig()}
	require.NoError(t, o.Validate())
	o.UIListen, o.ExternalURL = "127.0.0.1:0", ""
	require.NoError(t, o.Validate())
	o.UIListen = ":8686"
	require.ErrorContains(t, o.Validate(), "--external-url")
}
