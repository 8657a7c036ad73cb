package form_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
)

// Every form that can be asked is rendered with an input for each property, and submits the same
// answer.
func TestEveryShapeIsAnsweredOnAPage(t *testing.T) {
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	page, err := visit.NewQuestions(site.URL+"/q", &visit.QuestionOptions{
		Options: visit.Options{Visitor: visit.LocalVisitor}})
	noError(t, err)
	mux.Handle("/q", page)
	answered := 0
	answer := func(t *testing.T, schema, takes string) {
		parsed, err := form.ParsePeer([]byte(schema))
		if err != nil || len(schema) > 30<<10 {
			return // not asked
		}
		want, err := parsed.Accept([]byte(takes))
		noError(t, err)
		q := &roundtrip.PageQuestion{Principal: protocol.LocalPrincipal(),
			Form: json.RawMessage(schema)}
		answered++
		asked, err := page.OpenQuestion(t.Context(), q)
		noError(t, err)
		fillIn(t, asked.Link, parsed, takes)
		got, err := page.FindQuestion(t.Context(), q.Principal, asked.ID)
		noError(t, err)
		var result struct{ Content json.RawMessage }
		if err := json.Unmarshal(got.Answer, &result); err != nil {
			t.Fatalf("%s: %v", got.Answer, err)
		}
		content, err := parsed.Accept(result.Content) // like a client's
		noError(t, err)
		if got, want := canonical(t, content), canonical(t, want); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, test := range normalCases {
		t.Run(test.name, func(t *testing.T) { answer(t, test.schema, test.takes) })
	}
	for name, test := range map[string][2]string{
		"text of several lines": {`{"type":"string","default":"\na\nb"}`, `"\na\nb"`},
		"long text":             {`{"type":"string","maxLength":1000}`, `"a\n\nb"`},
		"blank text":            {`{"type":"string"}`, `" a "`},
		"required no":           {`{"type":"boolean","default":true}`, `false`},
		"many values":           {`{"type":"string","enum":["",` + manyValues(20) + `]}`, `""`},
		"one of many":           {`{"type":"string","enum":[` + manyValues(20) + `]}`, `"v7"`},
		"values of several lines": {`{"type":"array","items":{"type":"string","enum":["a\r\nb","a\n","a"]}}`,
			`["a\r\nb","a\n"]`},
		"empty among choices":     {`{"type":"array","items":{"type":"string","enum":["","a"]}}`, `[""]`},
		"none of the defaults":    {`{"type":"array","items":{"type":"string","enum":["a"]},"default":["a"]}`, `[]`},
		"a default of none":       {`{"type":"array","items":{"type":"string","enum":["a"]},"default":[]}`, `[]`},
		"large integer":           {`{"type":"integer","maximum":9007199254740993}`, `9007199254740993`},
		"fraction of many digits": {`{"type":"number"}`, `-0.10000000000000000000001`},
		"bounds with exponents":   {`{"type":"number","minimum":-1.5e3,"maximum":1E3}`, `-1e3`},
		"email":                   {`{"type":"string","format":"email"}`, `"a@example.com"`},
		"address":                 {`{"type":"string","format":"uri"}`, `"urn:x:y"`},
		"date":                    {`{"type":"string","format":"date"}`, `"2026-02-28"`},
		"time":                    {`{"type":"string","format":"date-time"}`, `"2026-02-28T10:00:00.5+01:00"`},
		"an emptied default":      {`{"type":"string","default":"a"}`, `null`},
		"no answer":               {`{"type":"boolean","default":true}`, `null`},
		"markup":                  {`{"type":"string","title":"<b>","default":"\"><script>"}`, `"\"><script>"`},
	} {
		for _, required := range []string{"", `"x"`} {
			if test[1] == "null" && required != "" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				answer(t, `{"type":"object","properties":{"x":`+test[0]+`},"required":[`+required+
					`]}`, `{"x":`+test[1]+`}`)
			})
		}
	}
	for _, name := range []string{"", "a b", "\"<&'", "a\nb", "é.[0]", strings.Repeat("n", 300)} {
		key := string(jsonx.AppendText(nil, name))
		t.Run("name "+name, func(t *testing.T) {
			answer(t, `{"type":"object","properties":{`+key+`:{"type":"string"}}}`, `{`+key+`:"v"}`)
		})
	}
	t.Run("many fields", func(t *testing.T) { answer(t, manyFields(form.MaxFields), `{"f7":"v"}`) })
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "spec", "2026-07-28",
		"examples", "*Schema", "*.json"))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		noError(t, err)
		t.Run(filepath.Base(file), func(t *testing.T) { answer(t, object(string(raw)), `{}`) })
	}
	if answered < 44+2*18+7 {
		t.Errorf("%d forms were answered", answered)
	}
}

// fillIn submits content in a form's page like a browser.
func fillIn(t *testing.T, link string, parsed *form.Form, content string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	noError(t, err)
	browser := &http.Client{Jar: jar}
	response, err := browser.Get(link)
	noError(t, err)
	text := readAll(t, response)
	sent, choices := testkit.ReadHTMLForm(text)
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	values := map[string]json.RawMessage{}
	for raw, to := range map[string]any{string(parsed.Schema()): &schema, content: &values} {
		noError(t, jsonx.Unmarshal([]byte(raw), to))
	}
	for name := range schema.Properties {
		field := "field." + name
		if !sent.Has(field) && choices[field] == nil {
			t.Fatalf("no input for %q:\n%s", name, text)
		}
		value, given := values[name]
		if !given {
			continue
		}
		entered, hidden := []string{string(value)}, 0
		if one, err := jsonx.Text(value); err == nil || string(value) == "null" {
			entered[0] = one
		} else if jsonx.KindOf(value) == jsonx.Array {
			entered, hidden = []string{""}, 1
			_ = jsonx.Elements(value, func(_ int, v []byte) error {
				one, err := jsonx.Text(v)
				entered = append(entered, one)
				return err
			})
		}
		for _, one := range entered[hidden:] {
			if offered := choices[field]; offered != nil && !slices.Contains(offered, one) {
				t.Errorf("%q can not be chosen of %q", one, offered)
			}
		}
		sent[field] = entered
	}
	sent.Set("action", "accept")
	crlf := url.Values{} // as browsers write line ends
	lines := strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n")
	for name, list := range sent {
		for _, value := range list {
			crlf.Add(lines.Replace(name), lines.Replace(value))
		}
	}
	request, err := http.NewRequest(http.MethodPost, link, strings.NewReader(crlf.Encode()))
	noError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", "http://"+request.URL.Host)
	if response, err = browser.Do(request); err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, response); response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", response.Status, text)
	}
}

func readAll(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	noError(t, err)
	return string(text)
}
