package errtext

// This file adds a package's name to its errors once, however often they are wrapped.

import (
	"fmt"
	"strings"
)

// A Prefix begins the texts of a package's errors, for example "client: ".
type Prefix string

// Errorf is [fmt.Errorf] with the prefix once: the prefixes of wrapped errors are removed.
func (p Prefix) Errorf(format string, args ...any) error {
	for i, arg := range args {
		err, ok := arg.(error)
		if !ok {
			continue
		}
		if text, found := strings.CutPrefix(err.Error(), string(p)); found {
			args[i] = &inner{err, text}
		}
	}
	return &prefixed{p, fmt.Errorf(format, args...)}
}

// Text returns the text of err without the prefix, for error types that add the prefix themselves.
func (p Prefix) Text(err error) string {
	if err == nil {
		return "<nil>"
	}
	return strings.TrimPrefix(err.Error(), string(p))
}

type prefixed struct {
	prefix Prefix
	err    error
}

func (e *prefixed) Error() string { return string(e.prefix) + e.err.Error() }
func (e *prefixed) Unwrap() error { return e.err }

type inner struct {
	err  error
	text string
}

func (e *inner) Error() string { return e.text }
func (e *inner) Unwrap() error { return e.err }

// RepeatedPrefix returns the first package name that prefixes err's text twice, or "". For tests.
func RepeatedPrefix(err error, packages ...string) string {
	if err == nil {
		return ""
	}
	text := " " + err.Error()
	for _, name := range packages {
		if strings.Count(text, " "+name+": ") > 1 {
			return name
		}
	}
	return ""
}
