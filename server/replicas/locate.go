package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// LocateByList returns a function for [Options].Locate from a list of URLs by name: http or https,
// without user, query and fragment. Errors do not quote URLs, which may hold a password.
func LocateByList(urls map[string]string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	known := make(map[string]*url.URL, len(urls))
	for name, text := range urls {
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("replicas: LocateByList: %q: %w", name, err)
		}
		u, err := parseURL(text)
		if err != nil {
			return nil, fmt.Errorf("replicas: LocateByList: %s: %w", name, err)
		}
		known[name] = u
	}
	return func(_ context.Context, name string) (*url.URL, error) {
		u, ok := known[name]
		if !ok {
			return nil, ErrUnknown
		}
		return u, nil
	}, nil
}

// LocateByPattern returns a function for [Options].Locate that replaces {name} in the host of a
// URL, for replicas with DNS names, such as a Kubernetes StatefulSet with a headless service:
//
//	http://{name}.everything.default.svc.cluster.local:8080/mcp
func LocateByPattern(pattern string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	before, after, _ := strings.Cut(pattern, "{name}")
	u, err := parseURL(before + "name" + after)
	if err != nil {
		return nil, fmt.Errorf("replicas: LocateByPattern: %w", err)
	}
	// The placeholder must be in the host: elsewhere all names would reach one host.
	other, err := parseURL(before + "other" + after)
	if err != nil || u.Hostname() == other.Hostname() || strings.Contains(after, "{name}") {
		return nil, errors.New("replicas: LocateByPattern: the host must have {name} in it, once")
	}
	return func(_ context.Context, name string) (*url.URL, error) {
		return parseURL(before + name + after)
	}, nil
}

// parseURL parses an endpoint's URL. Its errors do not quote it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("not an http or https URL without user, query and fragment")
	}
	if _, port, found := strings.Cut(u.Host[strings.LastIndexByte(u.Host, ']')+1:], ":"); found {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("the port must be a number from 1 to 65535")
		}
	}
	return u, nil
}
