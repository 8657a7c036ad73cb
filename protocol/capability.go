package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ClientCapabilities are a client's offers to a server. Nil means not declared.
type ClientCapabilities struct {
	Elicitation  *ElicitationCapability
	Sampling     *SamplingCapability
	Roots        *RootsCapability
	Experimental map[string]json.RawMessage // settings by name, nil when absent
	Extensions   map[string]json.RawMessage
}

// ElicitationCapability tells a client's modes of elicitation. An empty object means forms: it
// decodes as Form true, and is encoded as it came. Without modes the capability is omitted.
type ElicitationCapability struct {
	Form, URL bool

	implicit bool // came as {}
}

// SamplingCapability has a client's offers in addition to plain sampling.
type SamplingCapability struct {
	Context bool // includeContext other than "none"
	Tools   bool // tools and toolChoice
}

// RootsCapability tells that a client lists roots. ListChanged exists in legacy revisions only.
type RootsCapability struct{ ListChanged bool }

// IsZero reports whether no capability is declared.
func (c ClientCapabilities) IsZero() bool {
	return c.Elicitation == nil && c.Sampling == nil && c.Roots == nil &&
		len(c.Experimental) == 0 && len(c.Extensions) == 0
}

// Missing returns the capabilities that a client with c would also have to declare to be asked req,
// and zero if it may be asked (basic/patterns/mrtr, server requirement 7). It is also zero for a
// nil or unknown question, which encoding refuses.
func (c ClientCapabilities) Missing(req InputRequest) ClientCapabilities {
	switch req := req.(type) {
	case *ElicitForm:
		if c.Elicitation == nil || !c.Elicitation.Form {
			// Spelled {} for clients that declare no elicitation: every revision reads it.
			implicit := c.Elicitation == nil
			missing := &ElicitationCapability{Form: true, implicit: implicit}
			return ClientCapabilities{Elicitation: missing}
		}
	case *ElicitURL:
		if c.Elicitation == nil || !c.Elicitation.URL {
			return ClientCapabilities{Elicitation: &ElicitationCapability{URL: true}}
		}
	case *CreateMessage:
		tools := req != nil && (len(req.Tools) > 0 || req.ToolChoice != nil)
		if c.Sampling == nil || (tools && !c.Sampling.Tools) {
			return ClientCapabilities{Sampling: &SamplingCapability{Tools: tools}}
		}
	case *ListRoots:
		if c.Roots == nil {
			return ClientCapabilities{Roots: &RootsCapability{}}
		}
	}
	return ClientCapabilities{}
}

// Lacks returns the part of needed that c does not declare.
func (c ClientCapabilities) Lacks(needed ClientCapabilities) ClientCapabilities {
	var out ClientCapabilities
	if n := needed.Elicitation; n != nil {
		have := valueOrZero(c.Elicitation)
		lack := ElicitationCapability{Form: n.Form && !have.Form, URL: n.URL && !have.URL}
		if c.Elicitation == nil || lack.Form || lack.URL {
			out.Elicitation = new(lack)
		}
	}
	if n := needed.Sampling; n != nil {
		have := valueOrZero(c.Sampling)
		lack := SamplingCapability{Context: n.Context && !have.Context,
			Tools: n.Tools && !have.Tools}
		if c.Sampling == nil || lack.Context || lack.Tools {
			out.Sampling = new(lack)
		}
	}
	if needed.Roots != nil && c.Roots == nil {
		out.Roots = &RootsCapability{}
	}
	out.Experimental = missingKeys(c.Experimental, needed.Experimental)
	out.Extensions = missingKeys(c.Extensions, needed.Extensions)
	return out
}

func missingKeys(have, needed map[string]json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for name, settings := range needed {
		if _, ok := have[name]; !ok {
			if out == nil {
				out = map[string]json.RawMessage{}
			}
			out[name] = settings
		}
	}
	return out
}

// Union returns the capabilities declared by c, other or both.
func (c ClientCapabilities) Union(other ClientCapabilities) ClientCapabilities {
	if o := other.Elicitation; o != nil {
		have := valueOrZero(c.Elicitation)
		c.Elicitation = &ElicitationCapability{Form: have.Form || o.Form, URL: have.URL || o.URL}
	}
	if o := other.Sampling; o != nil {
		have := valueOrZero(c.Sampling)
		c.Sampling = &SamplingCapability{
			Context: have.Context || o.Context,
			Tools:   have.Tools || o.Tools,
		}
	}
	if o := other.Roots; o != nil {
		c.Roots = &RootsCapability{ListChanged: valueOrZero(c.Roots).ListChanged || o.ListChanged}
	}
	c.Experimental = unionKeys(c.Experimental, other.Experimental)
	c.Extensions = unionKeys(c.Extensions, other.Extensions)
	return c
}

func unionKeys(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	if len(b) == 0 {
		return a
	}
	out := make(map[string]json.RawMessage, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func valueOrZero[T any](p *T) T { return *cmp.Or(p, new(T)) }

// String lists the declared capabilities for error messages: "elicitation.url, roots" or "none".
func (c ClientCapabilities) String() string {
	var names []string
	if e := c.Elicitation; e != nil {
		names = append(
			names,
			subNames("elicitation", []string{"form", "url"}, []bool{e.Form, e.URL})...)
	}
	if s := c.Sampling; s != nil {
		names = append(
			names,
			subNames("sampling", []string{"context", "tools"}, []bool{s.Context, s.Tools})...)
	}
	if c.Roots != nil {
		names = append(names, "roots")
	}
	for _, name := range sortedKeys(c.Experimental) {
		names = append(names, "experimental "+quoteClipped(name))
	}
	for _, name := range sortedKeys(c.Extensions) {
		names = append(names, "extension "+quoteClipped(name))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func subNames(name string, subs []string, set []bool) []string {
	var names []string
	for i, sub := range subs {
		if set[i] {
			names = append(names, name+"."+sub)
		}
	}
	if names == nil {
		return []string{name}
	}
	return names
}

// DecodeClientCapabilities reads a capabilities object. Each known capability must be an object or
// null; an empty elicitation object means form mode.
func DecodeClientCapabilities(raw []byte) (ClientCapabilities, error) {
	if err := jsonx.Check(raw); err != nil {
		return ClientCapabilities{}, nameMember([]byte("clientCapabilities"), err)
	}
	c, err := decodeClientCapabilities(raw)
	return c, nameMember([]byte("clientCapabilities"), err)
}

// decodeClientCapabilities reads checked JSON. The caller adds the member name to an error.
func decodeClientCapabilities(raw []byte) (c ClientCapabilities, err error) {
	err = readMembers(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "elicitation":
			c.Elicitation, err = decodeElicitationCapability(value)
		case "sampling":
			c.Sampling = &SamplingCapability{}
			err = readSubCapabilities(value, func(sub string) {
				c.Sampling.Context = c.Sampling.Context || sub == "context"
				c.Sampling.Tools = c.Sampling.Tools || sub == "tools"
			}, "context", "tools")
		case "roots":
			c.Roots = &RootsCapability{}
			err = decodeRootsCapability(c.Roots, value)
		case "experimental":
			c.Experimental, err = decodeSettings(value)
		case "extensions":
			c.Extensions, err = decodeSettings(value)
		}
		return nameMember(key, err)
	})
	if err != nil {
		return ClientCapabilities{}, err
	}
	return c, nil
}

func decodeElicitationCapability(raw []byte) (*ElicitationCapability, error) {
	c := &ElicitationCapability{}
	err := readSubCapabilities(raw, func(sub string) {
		c.Form = c.Form || sub == "form"
		c.URL = c.URL || sub == "url"
	}, "form", "url")
	// Older clients declare an empty object and mean forms.
	if !c.Form && !c.URL && !jsonx.HasMember(raw, "form") && !jsonx.HasMember(raw, "url") {
		c.Form, c.implicit = true, true
	}
	return c, err
}

func decodeRootsCapability(c *RootsCapability, raw []byte) error {
	return readMembers(raw, func(key, value []byte) (err error) {
		if string(key) == "listChanged" {
			c.ListChanged, err = jsonx.Boolean(value)
		}
		return nameMember(key, err)
	})
}

// readSubCapabilities calls the function found for each known name, whose settings must be objects.
func readSubCapabilities(raw []byte, found func(string), known ...string) error {
	return readMembers(raw, func(key, value []byte) error {
		for _, name := range known {
			if string(key) != name || orAbsent(value) == nil {
				continue
			}
			if jsonx.KindOf(value) != jsonx.Object {
				return fmt.Errorf("%s: must be an object", name)
			}
			found(name)
		}
		return nil
	})
}

// decodeSettings reads settings by name and drops those that are not objects.
func decodeSettings(raw []byte) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if jsonx.KindOf(raw) != jsonx.Object {
		return out, nil
	}
	err := jsonx.Members(raw, func(key, value []byte) error {
		if jsonx.KindOf(value) == jsonx.Object {
			out[string(key)] = append(json.RawMessage(nil), value...)
		}
		return nil
	})
	return out, err
}

// MarshalJSON returns the capabilities object.
func (c ClientCapabilities) MarshalJSON() ([]byte, error) { return c.appendJSON(nil), nil }

// UnmarshalJSON calls [DecodeClientCapabilities].
func (c *ClientCapabilities) UnmarshalJSON(raw []byte) (err error) {
	*c, err = DecodeClientCapabilities(raw)
	return err
}

func (c *ClientCapabilities) appendJSON(dst []byte) []byte {
	w := beginObject(dst)
	if e := c.Elicitation; e != nil && (e.Form || e.URL) {
		w.addKey("elicitation")
		w.dst = appendFlags(w.dst, []string{"form", "url"}, []bool{e.Form && !e.implicit, e.URL})
	}
	if s := c.Sampling; s != nil {
		w.addKey("sampling")
		w.dst = appendFlags(w.dst, []string{"context", "tools"}, []bool{s.Context, s.Tools})
	}
	if c.Roots != nil {
		w.addKey("roots")
		in := beginObject(w.dst)
		in.addFlag("listChanged", c.Roots.ListChanged)
		w.dst, _ = in.endObject()
	}
	appendSettings(&w, "experimental", c.Experimental)
	appendSettings(&w, "extensions", c.Extensions)
	out, _ := w.endObject()
	return out
}

func appendFlags(dst []byte, names []string, set []bool) []byte {
	w := beginObject(dst)
	for i, name := range names {
		if set[i] {
			w.addKey(name)
			w.dst = append(w.dst, "{}"...)
		}
	}
	out, _ := w.endObject()
	return out
}

func appendSettings(w *objectWriter, name string, settings map[string]json.RawMessage) {
	if settings == nil {
		return
	}
	w.addKey(name)
	dst := append(w.dst, '{')
	for _, key := range sortedKeys(settings) {
		value := settings[key]
		if jsonx.KindOf(value) != jsonx.Object || jsonx.Check(value) != nil {
			value = json.RawMessage("{}")
		}
		dst = appendMember(dst, key, value)
	}
	w.dst = append(dst, '}')
}

// ServerCapabilities are a server's offers. Nil means not declared.
type ServerCapabilities struct {
	Tools        *ListCapability            `json:"tools,omitzero"`
	Prompts      *ListCapability            `json:"prompts,omitzero"`
	Resources    *ResourcesCapability       `json:"resources,omitzero"`
	Logging      *struct{}                  `json:"logging,omitzero"`
	Completions  *struct{}                  `json:"completions,omitzero"`
	Experimental map[string]json.RawMessage `json:"experimental,omitempty"`
	Extensions   map[string]json.RawMessage `json:"extensions,omitempty"`
}

func (w *objectWriter) codeServerCapabilities(m member, c *ServerCapabilities) error {
	if m.reads("capabilities") {
		return nameMember(m.key, readObject(m.value, c, nil))
	}
	return w.codeValue(m, "capabilities", c, true)
}

func (c *ServerCapabilities) checkComplete() error { return nil }

// codeMembers only reads: writing uses the struct tags.
func (c *ServerCapabilities) codeMembers(w *objectWriter, m member) (err error) {
	switch {
	case m.reads("experimental"):
		c.Experimental, err = decodeSettings(m.value)
	case m.reads("extensions"):
		c.Extensions, err = decodeSettings(m.value)
	}
	return firstError(err,
		w.codeValue(m, "tools", &c.Tools, true),
		w.codeValue(m, "prompts", &c.Prompts, true),
		w.codeValue(m, "resources", &c.Resources, true),
		w.codeValue(m, "logging", &c.Logging, true),
		w.codeValue(m, "completions", &c.Completions, true))
}

// ListCapability tells whether a server announces changes of a list.
type ListCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability tells whether a server announces changes of its list and of single resources.
type ResourcesCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
	Subscribe   bool `json:"subscribe,omitzero"`
}
