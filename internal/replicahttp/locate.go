package replicahttp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rondo-mcp/rondo/internal/replica"
)

// NamePlaceholder stands for the name of a replica in the pattern of LocateByPattern.
const NamePlaceholder = "{name}"

// LocateByList returns a function that knows the replicas of a list, by name.
func LocateByList(urls map[string]string) (func(context.Context, string) (*url.URL, error), error) {
	known := make(map[string]*url.URL, len(urls))
	for name, text := range urls {
		if !replica.IsName(name) {
			return nil, fmt.Errorf("%q is no name of a replica", name)
		}
		u, err := parseURL(text)
		if err != nil {
			return nil, fmt.Errorf("replica %s: %w", name, err)
		}
		known[name] = u
	}
	return func(_ context.Context, name string) (*url.URL, error) {
		u, ok := known[name]
		if !ok {
			return nil, ErrUnknownReplica
		}
		return u, nil
	}, nil
}

// LocateByPattern returns a function that puts the name of a replica in the place of
// NamePlaceholder in the host of a URL.
func LocateByPattern(pattern string) (func(context.Context, string) (*url.URL, error), error) {
	before, after, ok := strings.Cut(pattern, NamePlaceholder)
	if !ok || strings.Contains(after, NamePlaceholder) {
		return nil, errors.New("the pattern must contain {name} once")
	}
	u, err := parseURL(before + "name" + after)
	if err != nil {
		return nil, err
	}
	// The placeholder must be in the host: a name elsewhere would reach one host by all names.
	other, err := parseURL(before + "other" + after)
	if err != nil || u.Hostname() == other.Hostname() {
		return nil, errors.New("the pattern must have {name} in its host")
	}
	return func(_ context.Context, name string) (*url.URL, error) {
		return parseURL(before + name + after)
	}, nil
}

// parseURL reads the URL of an endpoint. Its errors do not quote it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("not an http or https URL without user, query and fragment")
	}
	return u, nil
}
