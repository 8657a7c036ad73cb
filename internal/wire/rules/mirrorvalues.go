package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const maxSafe = 1<<53 - 1 // exact in every JSON reader

// Values returns the required headers of a call with these arguments (a checked JSON object, nil
// when absent), in table order. An argument that is absent, null or of the wrong type has no
// header; an integer that JavaScript would round is an error.
func (t Mirrors) Values(arguments []byte) ([]protocol.MirroredParam, error) {
	var out []protocol.MirroredParam
	for _, p := range t {
		value, ok, err := p.valueIn(arguments)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, protocol.MirroredParam{Name: p.Name, Value: value})
		}
	}
	return out, nil
}

func (p Mirror) valueIn(arguments []byte) (string, bool, error) {
	raw := lookup(arguments, p.Path)
	switch {
	case raw == nil:
		return "", false, nil
	case p.Type == "string" && jsonx.KindOf(raw) == jsonx.String:
		s, err := jsonx.Text(raw)
		return s, err == nil, nil
	case p.Type == "boolean" && jsonx.KindOf(raw) == jsonx.Bool:
		return string(raw), true, nil
	case p.Type == "integer" && jsonx.KindOf(raw) == jsonx.Number:
		n, ok := parseInteger(string(raw))
		if !ok {
			return "", false, nil
		}
		if n > maxSafe || n < -maxSafe {
			return "", false, fmt.Errorf(
				"argument %s: integers beyond 2^53-1 cannot be mirrored into a header",
				strings.Join(p.Path, "."))
		}
		return strconv.FormatInt(n, 10), true, nil
	}
	return "", false, nil
}

func lookup(raw []byte, path []string) []byte {
	for _, name := range path {
		var next []byte
		if jsonx.KindOf(raw) != jsonx.Object {
			return nil
		}
		err := jsonx.Members(raw, func(key, value []byte) error {
			if string(key) == name {
				next = value
			}
			return nil
		})
		if err != nil || next == nil {
			return nil
		}
		raw = next
	}
	return raw
}

// parseInteger reads an integer in any spelling without expanding the exponent. An integer beyond
// 64 bits is returned as MaxInt64, which is not safe either.
func parseInteger(text string) (int64, bool) {
	plain, err := jsonx.AppendNumber(nil, []byte(text))
	if err != nil || bytes.Contains(plain, []byte("e-")) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(plain), 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// Check compares a request's headers, which lines returns, with arguments. Errors name the header.
func (t Mirrors) Check(arguments []byte, lines func(name string) []string) error {
	return t.checkHeaders(arguments, lines, true)
}

// CheckGiven is Check without required headers: only present ones are compared.
func (t Mirrors) CheckGiven(arguments []byte, lines func(name string) []string) error {
	return t.checkHeaders(arguments, lines, false)
}

func (t Mirrors) checkHeaders(arguments []byte, lines func(name string) []string, all bool) error {
	for _, p := range t {
		if !all && len(lines(ParamPrefix+p.Name)) == 0 {
			continue
		}
		want, expected, err := p.valueIn(arguments)
		if err != nil {
			return err
		}
		name := ParamPrefix + p.Name
		got := lines(name)
		switch {
		case !expected && len(got) == 0:
			continue
		case !expected:
			return fmt.Errorf("header %s is present but the body has no such argument", name)
		case len(got) == 0:
			return fmt.Errorf("header %s is missing", name)
		case len(got) > 1:
			return fmt.Errorf("header %s appears more than once", name)
		}
		if err := p.matchHeader(got[0], want); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

var (
	errMismatch = errors.New("does not match the argument in the body")
	errSpelling = errors.New("is not a number as JSON spells it")
)

func isJSONNumber(text string) bool {
	return jsonx.Check([]byte(text)) == nil && jsonx.KindOf([]byte(text)) == jsonx.Number &&
		strings.TrimSpace(text) == text
}

func (p Mirror) matchHeader(header, want string) error {
	value, err := DecodeValue(strings.Trim(header, " \t"))
	if err != nil {
		return err
	}
	if p.Type == "integer" {
		// 42.0 is 42, but only in JSON: a proxy may read +1 or 01 differently.
		if !isJSONNumber(value) {
			return errSpelling
		}
		if n, ok := parseInteger(value); ok {
			value = strconv.FormatInt(n, 10)
		}
	}
	if value != want {
		return errMismatch
	}
	return nil
}
