// Package alertmanagertest runs a real Alertmanager for tests.
package alertmanagertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Alert is an alert as Alertmanager's API v2 shows it.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Status       struct {
		State string `json:"state"`
	} `json:"status"`
}

// Alertmanager is a running process with a receiver that keeps alerts on its own page.
type Alertmanager struct {
	// URL is its base address on loopback.
	URL string
	log bytes.Buffer
}

// Start starts Alertmanager (the program prometheus-alertmanager or alertmanager) on a
// free loopback port and stops it at the test's end. A missing program fails the test.
func Start(t testing.TB) *Alertmanager {
	t.Helper()
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		if program, err = exec.LookPath("alertmanager"); err != nil {
			t.Fatal("this test runs a real Alertmanager: install the Debian package prometheus-alertmanager")
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: page}\nreceivers: [{name: page}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	a := &Alertmanager{URL: "http://" + addr}
	cmd := exec.Command(program, "--config.file="+config, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--cluster.listen-address=")
	cmd.Stderr = &a.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("alertmanager's log:\n%s", a.log.String())
		}
	})
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp, err := http.Get(a.URL + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return a
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("alertmanager is not ready after 30 s: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Alerts asks for every alert Alertmanager holds.
func (a *Alertmanager) Alerts(ctx context.Context) ([]Alert, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/api/v2/alerts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("alertmanager answered %s", resp.Status)
	}
	var out []Alert
	return out, json.NewDecoder(resp.Body).Decode(&out)
}
