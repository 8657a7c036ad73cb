package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// LocateByList returns a function for [Options].Locate that knows the replicas of a list: URLs by
// name. A URL is http or https, without user, query and fragment. Errors do not quote URLs, which
// may hold a password.
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

// LocateByPattern returns a function for [Options].Locate that puts the name of a replica
// in the place of {name} in the host of a URL, for replicas that have names of their own in
// the DNS, as those of a StatefulSet of Kubernetes with a headless service have:
//
//	http://{name}.everything.default.svc.cluster.local:8080/mcp
func LocateByPattern(pattern string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	before, after, _ := strings.Cut(pattern, "{name}")
	u, err := parseURL(before + "name" + after)
	if err != nil {
		return nil, fmt.Errorf("replicas: LocateByPattern: %w", err)
	}
	// The placeholder must be in the host: a name elsewhere would reach one host by all names.
	other, err := parseURL(before + "other" + after)
	if err != nil || u.Hostname() == other.Hostname() || strings.Contains(after, "{name}") {
		return nil, errors.New("replicas: LocateByPattern: the host must have {name} in it, once")
	}
	return func(_ context.Context, name string) (*url.URL, error) {
		return parseURL(before + name + after)
	}, nil
}

// parseURL reads the URL of an endpoint. Its errors do not quote it.
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
