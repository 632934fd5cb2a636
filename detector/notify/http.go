package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"driftline/internal/version"
)

// timeout bounds one delivery; a slow receiver must not hold up the round.
const timeout = 10 * time.Second

// endpoint is a receiver's URL, which may hold a secret and is shown without it.
type endpoint struct {
	url    string
	shown  string
	client *http.Client
}

func newEndpoint(raw, what string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return endpoint{}, fmt.Errorf("%s URL: want http://host:port or https://host:port with an optional path", what)
	}
	return endpoint{url: u.String(), shown: u.Scheme + "://" + u.Host, client: &http.Client{Timeout: timeout}}, nil
}

// name tells receivers on one host apart without showing their paths.
func (e endpoint) name(kind string) string {
	sum := sha256.Sum256([]byte(e.url))
	return kind + " " + e.shown + " " + hex.EncodeToString(sum[:4])
}

// post sends v as JSON. Its error says where to and how it was answered, and shows
// neither path nor query, where webhooks keep their secrets.
func (e endpoint) post(ctx context.Context, v any, header map[string]string) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("request to %s: %w", e.shown, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "driftline-detectd/"+version.Version)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("send to %s: %w", e.shown, err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s: %s", e.shown, resp.Status, strings.TrimSpace(string(answer)))
	}
	return nil
}
