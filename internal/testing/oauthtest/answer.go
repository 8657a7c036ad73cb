package oauthtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// A Document has the members of a JSON object, or the parameters of a redirect or form.
type Document map[string]any

// Set returns an edit that sets a member of a document.
func Set(name string, value any) func(*Answer) {
	return func(a *Answer) {
		if a.Document != nil {
			a.Document[name] = value
		}
	}
}

func Remove(name string) func(*Answer) { return func(a *Answer) { delete(a.Document, name) } }

// Failure returns an edit that replaces the member code with an error.
func Failure(code string) func(*Answer) {
	return func(a *Answer) {
		delete(a.Document, "code")
		Set("error", code)(a)
	}
}

// An Answer is a response before it is sent.
type Answer struct {
	Status   int // 0: 200
	Header   http.Header
	Document Document // nil: Body is sent
	Extra    Document // further members, even duplicates of Document's
	Body     string
	Form     bool // the Document is sent as a form

	redirect string       // Document has this URL's parameters
	handler  http.Handler // replaces the answer
}

func failed(code string) *Answer {
	a := &Answer{Status: http.StatusBadRequest,
		Document: Document{"error": code, "error_description": "refused: " + code}}
	if code == "invalid_client" {
		a.Status = http.StatusUnauthorized
		a.Header = http.Header{"Www-Authenticate": {`Basic realm="oauthtest"`}}
	}
	return a
}

func (a *Answer) encodeJSON() string {
	var members []string
	for _, document := range []Document{a.Document, a.Extra} {
		for name, value := range document {
			raw, ok := value.(json.RawMessage)
			if !ok {
				raw, _ = json.Marshal(value)
			}
			members = append(members, fmt.Sprintf("%q:%s", name, raw))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (a *Answer) encodeQuery() string {
	q := url.Values{}
	for _, document := range []Document{a.Document, a.Extra} {
		for name, value := range document {
			q.Add(name, fmt.Sprint(value))
		}
	}
	return q.Encode()
}

func (a *Answer) writeTo(w http.ResponseWriter, r *Request) {
	body, kind := a.Body, "application/json"
	switch {
	case a.handler != nil:
		a.handler.ServeHTTP(w, r.Request)
		return
	case a.redirect != "":
		mark := "?"
		if strings.Contains(a.redirect, mark) {
			mark = "&"
		}
		w.Header().Set("Location", a.redirect+mark+a.encodeQuery())
		a.Status = http.StatusFound
	case a.Form:
		body, kind = a.encodeQuery(), "application/x-www-form-urlencoded"
	case a.Document != nil:
		body = a.encodeJSON()
	}
	w.Header().Set("Content-Type", kind)
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = w.Write([]byte(body)) // the client may be gone
}
