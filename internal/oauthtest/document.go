package oauthtest

import (
	"bytes"
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
	for i := range *d {
		if (*d)[i].Name == name {
			(*d)[i].Value = value
			return
		}
	}
	d.Add(name, value)
}

// Add adds a member, also when there is one with the name.
func (d *Document) Add(name string, value any) { *d = append(*d, Member{name, value}) }

// Delete removes all members with a name.
func (d *Document) Delete(name string) {
	*d = slices.DeleteFunc(*d, func(m Member) bool { return m.Name == name })
}

// Set returns an edit that sets a member.
func Set(name string, value any) func(*Document) {
	return func(d *Document) { d.Set(name, value) }
}

// Add returns an edit that adds a member, also when there is one with the name.
func Add(name string, value any) func(*Document) {
	return func(d *Document) { d.Add(name, value) }
}

// Delete returns an edit that removes a member.
func Delete(name string) func(*Document) {
	return func(d *Document) { d.Delete(name) }
}

// Pad returns an edit that makes a document larger than size bytes, and leaves it valid.
func Pad(size int) func(*Document) {
	return func(d *Document) { d.Add("padding", strings.Repeat("x", size)) }
}

// Nest returns an edit that adds a member with depth arrays in one another.
func Nest(depth int) func(*Document) {
	return func(d *Document) {
		d.Add("nested", json.RawMessage(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	}
}

// encode returns the JSON text.
func (d Document) encode() []byte {
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

// send writes the document as the answer of an endpoint, after the edits.
func (l *recorder) send(w http.ResponseWriter, e Endpoint, status int, d Document) {
	l.apply(e, &d)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(d.encode()) // the client may be gone
}
