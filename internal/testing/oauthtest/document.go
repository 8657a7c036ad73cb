package oauthtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Member is one member of a [Document]. Value is encoded as JSON; a json.RawMessage stays as it
// is, valid or not.
type Member struct {
	Name  string
	Value any
}

// A Document is a JSON object whose members have an order and may repeat.
type Document []Member

// Get returns the value of the first member with a name, nil if there is none.
func (d *Document) Get(name string) any {
	for _, m := range *d {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Set changes the first member with a name, or adds one.
func (d *Document) Set(name string, value any) {
	i := slices.IndexFunc(*d, func(m Member) bool { return m.Name == name })
	if i < 0 {
		d.Add(name, value)
		return
	}
	(*d)[i].Value = value
}

// Add adds a member, also when there is one with the name.
func (d *Document) Add(name string, value any) { *d = append(*d, Member{name, value}) }

// Set returns an edit that sets a member.
func Set(name string, value any) func(*Document) {
	return func(d *Document) { d.Set(name, value) }
}

// Add returns an edit that adds a member, also when there is one with the name.
func Add(name string, value any) func(*Document) {
	return func(d *Document) { d.Add(name, value) }
}

// Remove returns an edit that removes all members with a name.
func Remove(name string) func(*Document) {
	return func(d *Document) {
		*d = slices.DeleteFunc(*d, func(m Member) bool { return m.Name == name })
	}
}

// encodeJSON returns the JSON text.
func (d Document) encodeJSON() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range d {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(m.Name))
		b.WriteByte(':')
		raw, ok := m.Value.(json.RawMessage)
		if !ok {
			var err error
			if raw, err = json.Marshal(m.Value); err != nil {
				raw = []byte(strconv.Quote(err.Error())) // visible in the test that asked for it
			}
		}
		b.Write(raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encodeQuery returns the members as parameters of a URL, in their order.
func (d Document) encodeQuery() string {
	var parts []string
	for _, m := range d {
		parts = append(parts, url.QueryEscape(m.Name)+"="+url.QueryEscape(fmt.Sprint(m.Value)))
	}
	return strings.Join(parts, "&")
}

// A Reply is a response that takes the place of the right one.
type Reply struct {
	Status      int
	Header      http.Header // beside the type of the content
	ContentType string      // empty: application/json
	Body        string
	// Hangs sends no response as long as the client waits.
	Hangs bool
	// Lost does what the request asks for, and closes the connection without a response, once.
	Lost bool
}

func (r Reply) writeTo(w http.ResponseWriter) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", cmp.Or(r.ContentType, "application/json"))
	w.WriteHeader(r.Status)
	_, _ = w.Write([]byte(r.Body)) // the client may be gone
}
