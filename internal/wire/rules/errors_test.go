package rules_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestSpellError(t *testing.T) {
	const none = 0
	for _, test := range []struct {
		name    string
		code    int64
		version protocol.Version
		want    int64
		data    bool // is kept
	}{
		{"header mismatch, legacy", protocol.CodeHeaderMismatch, protocol.V20251125,
			protocol.CodeInvalidParams, true},
		{"header mismatch, modern", protocol.CodeHeaderMismatch, protocol.V20260728,
			protocol.CodeHeaderMismatch, true},
		{"unsupported version, legacy", protocol.CodeUnsupportedProtocolVersion, protocol.V20241105,
			protocol.CodeInvalidParams, true},
		{"missing capability, legacy", protocol.CodeMissingRequiredClientCapability,
			protocol.V20250618, protocol.CodeCannotAsk, false},
		{"missing capability, modern", protocol.CodeMissingRequiredClientCapability,
			protocol.V20260728, protocol.CodeMissingRequiredClientCapability, true},
		{"URL elicitation required, before", protocol.CodeURLElicitationRequired,
			protocol.V20250618, none, false},
		{"URL elicitation required, its revision", protocol.CodeURLElicitationRequired,
			protocol.V20251125, protocol.CodeURLElicitationRequired, true},
		{"URL elicitation required, modern", protocol.CodeURLElicitationRequired,
			protocol.V20260728, none, false},
		{"resource not found, legacy", protocol.CodeResourceNotFound, protocol.V20241105,
			protocol.CodeResourceNotFound, true},
		{"resource not found, modern", protocol.CodeResourceNotFound, protocol.V20260728,
			protocol.CodeInvalidParams, true},
		{"a code of all revisions", protocol.CodeInvalidParams, protocol.V20250326,
			protocol.CodeInvalidParams, true},
		{"a code of the author's", 4711, protocol.V20250326, 4711, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &protocol.Error{Code: test.code, Message: "m", Data: []byte(`{"a":1}`)}
			got, err := rules.SpellError(test.version, e)
			switch {
			case test.want == none:
				if err == nil || got != nil {
					t.Errorf("got %v and error %v, want an error alone", got, err)
				}
			case err != nil:
				t.Error(err)
			case got.Code != test.want || got.Message != "m" || (got.Data != nil) != test.data:
				t.Errorf("got %v with data %s, want code %d, data kept: %t",
					got, got.Data, test.want, test.data)
			}
			if e.Code != test.code || e.Data == nil {
				t.Error("the author's error was changed")
			}
		})
	}
	if got, err := rules.SpellError(protocol.V20251125, nil); got != nil || err != nil {
		t.Errorf("nil: got %v and error %v", got, err)
	}
}

// A handler may return the errors of a server, except about headers and versions.
func TestSpellHandlerError(t *testing.T) {
	for _, code := range []int64{
		protocol.CodeHeaderMismatch, protocol.CodeUnsupportedProtocolVersion,
		protocol.CodeMissingRequiredClientCapability, protocol.CodeURLElicitationRequired,
		protocol.CodeResourceNotFound, protocol.CodeInvalidParams, 4711,
	} {
		for _, v := range protocol.Versions() {
			e := &protocol.Error{Code: code, Message: "m"}
			got, err := rules.SpellHandlerError(v, e)
			want, wantErr := rules.SpellError(v, e)
			ofTransport := code == protocol.CodeHeaderMismatch ||
				code == protocol.CodeUnsupportedProtocolVersion
			if ofTransport && v.Era() == protocol.Legacy {
				if got != nil || err == nil {
					t.Errorf("code %d in %s: got %v, want an error", code, v, got)
				}
			} else if (err == nil) != (wantErr == nil) || err == nil && got.Code != want.Code {
				t.Errorf("code %d in %s: got %v, %v, want %v, %v", code, v, got, err, want, wantErr)
			}
		}
	}
}

func TestProvesModern(t *testing.T) {
	for _, test := range []struct {
		name string
		e    *protocol.Error
		want bool
	}{
		{"none", nil, false},
		{"header mismatch", &protocol.Error{Code: protocol.CodeHeaderMismatch}, true},
		{"capability", &protocol.Error{Code: protocol.CodeMissingRequiredClientCapability}, true},
		{"version", &protocol.Error{Code: protocol.CodeUnsupportedProtocolVersion}, true},
		{"code of a draft", &protocol.Error{Code: -32001}, false},
		{"invalid params", &protocol.Error{Code: protocol.CodeInvalidParams}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := rules.ProvesModern(test.e); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestPublicErrorHidesWhatIsNotForClients(t *testing.T) {
	public := protocol.Errorf(protocol.CodeInvalidParams, "invalid params: n")
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"a protocol error", public, public.Message},
		{"a wrapped one", fmt.Errorf("open /etc/x: %w", public), public.Message},
		{"any other", errors.New("open /etc/x"), "internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := rules.PublicError(test.err).Message; got != test.want {
				t.Errorf("the client gets %q, want %q", got, test.want)
			}
		})
	}
}

// SpellError may change the code of an error in place.
func TestInternalErrorsAreNotShared(t *testing.T) {
	rules.InternalError().Message = "changed"
	if got := rules.InternalError().Message; got != "internal error" {
		t.Errorf("the next internal error is %q", got)
	}
}
