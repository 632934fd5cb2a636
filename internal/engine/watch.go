//go:build linux || darwin

package engine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// watch asks the engine whether it is there until the process ends, and kills it when it has not answered for too long: a process
// that hangs ends no connection, so its clients would wait for ever and nobody start another. It goes by the wall clock, as
// the timeouts of sockets do. It returns why it killed the process, or nil.
func (s *Supervisor) watch(ctx context.Context, process *Process) error {
	client := &http.Client{
		Timeout:   s.opt.PingEvery,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: s.opt.PingEvery}).DialContext},
	}
	ticker := time.NewTicker(s.opt.PingEvery)
	defer ticker.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-process.Done():
			return nil
		case <-ticker.C:
		}
		err := ping(ctx, client, localAddress(process.Addr()))
		switch silent := time.Since(answered); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			answered = time.Now()
			s.reached(process.PID(), nil)
		case silent < s.opt.HangAfter:
			s.reached(process.PID(), fmt.Errorf("the engine has not answered for %s: %w", silent.Round(time.Millisecond), err))
		default:
			process.Kill()
			return fmt.Errorf("engine process %d hung: no answer for %s (%w); it was killed", process.PID(), silent.Round(time.Millisecond), err)
		}
	}
}

func ping(ctx context.Context, client *http.Client, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ping", nil)
	if err != nil {
		return err
	}
	// The engine looks at the name only as a web page might send it.
	req.Host = "localhost"
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/ping answered %s", resp.Status)
	}
	return nil
}

// reached notes whether a running engine answers.
func (s *Supervisor) reached(pid int, err error) {
	s.mu.Lock()
	state := s.status.State
	s.mu.Unlock()
	switch {
	case err == nil && state == StateUnresponsive:
		s.set(StateReady, pid, nil)
		s.opt.Logger.Info("engine answers again")
	case err != nil && state == StateReady:
		s.set(StateUnresponsive, pid, err)
		s.opt.Logger.Warn("engine does not answer", "error", err)
	}
}

// localAddress is the address under which this machine reaches a listener.
func localAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}
