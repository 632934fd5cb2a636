package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"driftline/detector"
	"driftline/internal/version"
)

// timeout bounds one request; a slow receiver must not hold up the round.
const timeout = 5 * time.Second

// Access is how receivers are reached beside their URL: who asks, and whom to trust. The
// files of secrets are read at each delivery, so that they may be replaced.
type Access struct {
	// BearerFile holds a token, BasicFile one line user:password. At most one is set.
	BearerFile, BasicFile string
	// CAFile holds the PEM certificates of the authorities that sign the receivers'
	// certificates; without it the system's are trusted.
	CAFile string
}

// Validate reports every mistake; files are read to see that they can be.
func (a Access) Validate() error {
	var errs []error
	if a.BearerFile != "" && a.BasicFile != "" {
		errs = append(errs, errors.New("a bearer token and a user with password are both given: choose one"))
	}
	_, _, err := a.authorization()
	_, err2 := a.transport()
	return errors.Join(append(errs, err, err2)...)
}

// authorization is the header's value, and the secrets in it.
func (a Access) authorization() (header string, secrets []string, err error) {
	read := func(path, what string) (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the %s: %w", what, err)
		}
		if s := strings.TrimSpace(string(text)); s != "" && !strings.ContainsAny(s, "\r\n") {
			return s, nil
		}
		return "", fmt.Errorf("the %s in %s: want one line", what, path)
	}
	switch {
	case a.BearerFile != "":
		token, err := read(a.BearerFile, "bearer token")
		return "Bearer " + token, []string{token}, err
	case a.BasicFile != "":
		pair, err := read(a.BasicFile, "user and password")
		if err != nil {
			return "", nil, err
		}
		user, password, ok := strings.Cut(pair, ":")
		if !ok {
			return "", nil, fmt.Errorf("the user and password in %s: want user:password", a.BasicFile)
		}
		encoded := base64.StdEncoding.EncodeToString([]byte(pair))
		return "Basic " + encoded, []string{password, encoded, user}, nil
	}
	return "", nil, nil
}

func (a Access) transport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if a.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", a.CAFile)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// endpoint is a receiver's URL, which may hold a secret and is shown without it.
type endpoint struct {
	url     string
	shown   string
	secrets []string
	access  Access
	client  *http.Client
}

func newEndpoint(raw, what string, a Access) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return endpoint{}, fmt.Errorf("%s URL: want http://host:port or https://host:port with an optional path", what)
	}
	if err := a.Validate(); err != nil {
		return endpoint{}, fmt.Errorf("%s: %w", what, err)
	}
	t, err := a.transport()
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{url: u.String(), shown: u.Scheme + "://" + u.Host, access: a, client: &http.Client{
		Timeout: timeout, Transport: t,
		// A redirect would carry the alert, and the path's secret, somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if u.User != nil {
		password, _ := u.User.Password()
		e.secrets = append(e.secrets, password, u.User.Username())
	}
	e.secrets = append(e.secrets, u.RequestURI(), u.RawQuery)
	for _, values := range u.Query() {
		e.secrets = append(e.secrets, values...)
	}
	for _, part := range strings.Split(u.Path, "/") {
		if len(part) >= 16 { // short parts are words such as api
			e.secrets = append(e.secrets, part)
		}
	}
	return e, nil
}

// clean hides secrets that a receiver or a proxy repeats in its answer.
func clean(text string, secrets ...[]string) string {
	for _, some := range secrets {
		for _, s := range some {
			if len(s) >= 4 {
				text = strings.ReplaceAll(text, s, "***")
			}
		}
	}
	return text
}

// name tells receivers on one host apart without showing their paths.
func (e endpoint) name(kind string) string {
	sum := sha256.Sum256([]byte(e.url))
	return kind + " " + e.shown + " " + hex.EncodeToString(sum[:4])
}

// failure is a delivery that was not taken.
type failure struct {
	// reason is of bounded values: timeout, refused, dns, tls, connection, 3xx, 4xx, 5xx
	// or config.
	reason string
	// refusal says that the receiver will not take this alert however often it is sent.
	refusal bool
	err     error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// post sends v as JSON. Its error says where to and how it was answered, and shows
// neither user, path nor query, where webhooks keep their secrets.
func (e endpoint) post(ctx context.Context, v any, header map[string]string) error {
	body, err := json.Marshal(v)
	if err != nil {
		return &failure{"config", true, fmt.Errorf("encode: %w", err)}
	}
	authorization, secrets, err := e.access.authorization()
	if err != nil {
		return &failure{"config", false, err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return &failure{"config", false, fmt.Errorf("no request to %s can be made", e.shown)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "driftline-detectd/"+version.Version)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return &failure{reasonOf(err), false, fmt.Errorf("send to %s: %s", e.shown, clean(err.Error(), e.secrets, secrets))}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return &failure{fmt.Sprintf("%dxx", resp.StatusCode/100), refusal(resp.StatusCode),
		fmt.Errorf("%s answered %s: %s", e.shown, resp.Status, strings.TrimSpace(clean(string(answer), e.secrets, secrets)))}
}

// refusal says whether a status is about this alert rather than about the receiver's state
// or the way to it.
func refusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

func reasonOf(err error) string {
	var timedOut net.Error
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timedOut) && timedOut.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &cert) || errors.As(err, &record):
		return "tls"
	}
	return "connection"
}

// each posts alerts one by one. One that the receiver refuses for what it is does not hold
// up the rest; anything else ends it, since the next would fare alike.
func each(what string, alerts []detector.Alert, post func(detector.Alert) error) error {
	var out detector.DeliveryError
	for _, a := range alerts {
		err := post(a)
		var f *failure
		switch {
		case err == nil:
			out.Taken = append(out.Taken, a.Key())
			continue
		case errors.As(err, &f) && f.refusal:
			out.Refused = append(out.Refused, a.Key())
		}
		out.Err = errors.Join(out.Err, fmt.Errorf("%s: alert %s: %w", what, a.Key(), err))
		if f != nil {
			out.Reason = f.reason
		}
		if f == nil || !f.refusal {
			break
		}
	}
	if out.Err == nil {
		return nil
	}
	return &out
}

// news leaves out repeats, for receivers that do not expire alerts.
func news(alerts []detector.Alert) []detector.Alert {
	var out []detector.Alert
	for _, a := range alerts {
		if !a.Resend {
			out = append(out, a)
		}
	}
	return out
}
