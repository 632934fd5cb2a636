package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Validate reports every wrong setting that can be seen without connecting anywhere, by
// flag.
func (o Options) Validate() error {
	errs := []error{CheckAddress("--ui-listen", o.UIListen, true)}
	if o.ExternalURL != "" {
		if u, err := url.Parse(o.ExternalURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			errs = append(errs, fmt.Errorf("--external-url %q: want http://host:port or https://host:port with an optional path", o.ExternalURL))
		}
	}
	if host, _, err := net.SplitHostPort(o.UIListen); err == nil && o.ExternalURL == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			errs = append(errs, fmt.Errorf("--external-url: is needed with --ui-listen %s, or links in alerts name no host; give the URL under which people reach the UI", o.UIListen))
		}
	}
	for _, host := range o.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/ :") {
			errs = append(errs, fmt.Errorf("--allowed-host %q: want a bare host name such as driftline.example.com", host))
		}
	}
	_, err := remotes(o, o.ExternalURL)
	return errors.Join(append(errs, err, o.Detector.Validate())...)
}

// CheckAddress says what is wrong with an address to listen on. Port 0, any free port, is
// right only where free is true: where the address is known from a running process.
func CheckAddress(flag, addr string, free bool) error {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s %q: want host:port, such as 127.0.0.1:8080", flag, addr)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%s %q: %q is no port; want a number from 1 to 65535", flag, addr, text)
	}
	if port == 0 && !free {
		return fmt.Errorf("%s %q: port 0 would leave others without the address; name a port", flag, addr)
	}
	return nil
}
