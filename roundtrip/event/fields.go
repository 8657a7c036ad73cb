package event

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Level is the urgency of an event's log entry.
type Level int8

const (
	LevelDebug Level = iota - 1
	LevelInfo
	LevelWarn
	LevelError
)

// An Encoder takes the fields of a log entry in order. Package zap's have the first four methods.
type Encoder interface {
	AddString(name, value string)
	AddInt64(name string, value int64)
	AddFloat64(name string, value float64)
	AddBool(name string, value bool)
	// AppendItem adds an item to the list that the next AddItems writes as a field.
	AppendItem(value string)
	AddItems(name string)
}

// Fields writes an entry's fields to an Encoder, peers' texts truncated and escaped.
type Fields struct {
	Encoder
	*FieldOptions
}

// FieldOptions reduce the output of [Fields]. The zero value writes everything.
type FieldOptions struct {
	// OmitMessages leaves out reasons of refusals and failed forwarding, OmitErrors the texts of
	// handlers' errors and panics.
	OmitMessages, OmitErrors bool
	Subject                  func(p protocol.Principal) string // the logged name; nil: none
	// Mask masks the request's secrets in the text of an error or panic. If nil, apparent
	// credentials are masked, and only the type of an unmasked panic is written.
	Mask func(text string) string
}

const (
	maxText    = 256      // characters of a peer's text
	maxError   = 512      // characters of an error, whose cause comes last
	maxKey     = 64       // characters of a key or a word
	maxDropped = 8        // dropped answers named; the entry has their number, too
	maxListed  = 16       // questions, and keys of a keyring
	maxStack   = 16 << 10 // bytes of a stack, most relevant frames first
)

// AddText adds a text of at most 256 characters.
func (f Fields) AddText(name, value string) {
	f.AddString(name, redact.EscapeText(value, maxText))
}

// AddNonEmpty is AddText for non-empty texts.
func (f Fields) AddNonEmpty(name, value string) {
	if value != "" {
		f.AddText(name, value)
	}
}

func (f Fields) addKey(name, value string) { f.AddString(name, keyText(value)) }

func keyText(value string) string { return redact.EscapeText(value, maxKey) }

func (f Fields) addNonEmptyKey(name, value string) {
	if value != "" {
		f.addKey(name, value)
	}
}

// AddMilliseconds adds a duration in milliseconds.
func (f Fields) AddMilliseconds(name string, d time.Duration) {
	f.AddFloat64(name, float64(d.Microseconds())/1000)
}

// AddMessage adds a text without the secret parts of its URLs.
func (f Fields) AddMessage(name, text string) { f.AddText(name, redact.HideURLSecrets(text)) }

func (f Fields) addError(name, text string) {
	f.AddString(name, redact.EscapeText(redact.HideURLSecrets(text), maxError))
}

func (f Fields) addCause(err error) {
	if err != nil && !f.OmitMessages {
		f.addError("error", err.Error())
	}
}

// addFailure adds the text of a server failure, for operators.
func (f Fields) addFailure(err error) {
	text := ""
	if err != nil {
		text = f.mask(err.Error())
	}
	f.AddMessage("error", text)
}

func (f Fields) mask(text string) string {
	if f.Mask != nil {
		return f.Mask(text)
	}
	var none redact.Secrets
	return none.Redact(text)
}

// panicText returns a panic's text. Run-time errors quote no values.
func (f Fields) panicText(e HandlerPanicked) string {
	if err, ok := e.Value.(error); ok {
		if e, ok := errors.AsType[runtime.Error](err); ok {
			return e.Error()
		}
	}
	switch {
	case f.OmitErrors:
	case e.Text != "":
		return e.Text
	case f.Mask != nil: // not recovered by the funnel
		return f.Mask(fmt.Sprint(e.Value))
	}
	return fmt.Sprintf("value of type %T", e.Value)
}

// AddPrincipal adds the kind of principal, and its name if authenticated and wanted.
func (f Fields) AddPrincipal(p protocol.Principal) {
	kind := PrincipalKind(p)
	f.AddString("principal", kind)
	if f.Subject != nil && kind == authenticated {
		f.AddNonEmpty("subject", f.Subject(p))
	}
}

const authenticated = "authenticated"

// PrincipalKind returns "local", "anonymous" or "authenticated".
func PrincipalKind(p protocol.Principal) string {
	switch {
	case p == protocol.LocalPrincipal():
		return "local"
	case p.Anonymous():
		return "anonymous"
	}
	return authenticated
}

// AddWhere adds an entry's request. If inLeg, the request's own entry has method and version.
func (f Fields) AddWhere(w *Where, inLeg bool) {
	f.AddNonEmpty("request", w.Request)
	if !inLeg {
		f.AddText("method", w.Method)
		f.AddText("version", string(w.Version))
	}
	f.AddTarget(w.Target)
	if w.Round > 0 {
		f.AddInt64("round", int64(w.Round))
	}
	f.AddNonEmpty("flow", w.Flow)
}

// AddTarget adds the name of a tool or prompt, or a URI.
func (f Fields) AddTarget(s string) { f.AddString("target", EscapeTarget(s)) }

// EscapeTarget makes the name of a tool or prompt, or a URI, safe for a log.
func EscapeTarget(s string) string {
	if len(s) <= maxText && isName(s) {
		return s
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return redact.EscapeText(redact.HideURLSecrets(s), maxText)
}

// isName reports whether s is spelled like nearly all tool names, with nothing to escape.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20)-'a' >= 26 && c-'0' >= 10 && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
