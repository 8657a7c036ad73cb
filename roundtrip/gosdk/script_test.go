package gosdk_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// What the handlers of these tests do is one script; how they ask is the style.

// A query is something to ask.
type query struct {
	key, message  string
	schema, url   string // of a form, of a visit
	sample, roots bool
}

// A reply is what came of a query.
type reply struct {
	action  string
	content map[string]any
	text    string // of the model, or directories
}

type replies map[string]reply

const (
	reasonForm = `{"type":"object","properties":{"reason":{"type":"string","minLength":2}},"required":["reason"]}`
	regionForm = `{"type":"object","properties":{"name":{"type":"string","enum":["eu","us"]}},"required":["name"]}`
	sizeForm   = `{"type":"object","properties":{"cores":{"type":"integer","default":2}}}`
)

// targets are the tools of the script.
func targets() []string {
	return []string{"plain", "deploy", "wizard", "sign_in", "summarize", "tidy", "survey", "fail"}
}

// script says what to ask next, or else the result. A text after "error: " is a failure.
func script(target string, got replies) (ask []query, text string) {
	missing := func(q query) bool {
		if got[q.key].action != "" {
			return false
		}
		ask = append(ask, q)
		return true
	}
	confirm := func(message string) query {
		return query{key: "confirm", message: message,
			schema: reasonForm}
	}
	switch target {
	case "plain":
		return nil, "plain"
	case "deploy", "brief", "vault://codes", "vault://box/7":
		if missing(confirm(target + "?")) {
			return ask, ""
		}
		if a := got["confirm"]; a.action != "accept" {
			return nil, "left alone: " + a.action
		}
		return nil, fmt.Sprint("done: ", got["confirm"].content["reason"])
	case "wizard":
		if missing(query{key: "region", message: "Which region?", schema: regionForm}) {
			return ask, ""
		}
		region := fmt.Sprint(got["region"].content["name"])
		if missing(query{key: "size", message: "How big in " + region + "?", schema: sizeForm}) {
			return ask, ""
		}
		if a := got["size"]; a.action != "accept" {
			return nil, "no size: " + a.action
		}
		if missing(confirm("Sure?")) {
			return ask, ""
		}
		return nil, fmt.Sprintf("%v cores in %s: %v", got["size"].content["cores"], region,
			got["confirm"].content["reason"])
	case "sign_in":
		if missing(query{key: "login", message: "Sign in", url: "https://example.com/in"}) {
			return ask, ""
		}
		return nil, "visit " + got["login"].action
	case "summarize":
		if missing(query{key: "summary", message: "Summarize.", sample: true}) {
			return ask, ""
		}
		return nil, "model says: " + got["summary"].text
	case "tidy":
		if missing(query{key: "dirs", roots: true}) {
			return ask, ""
		}
		return nil, "tidied " + got["dirs"].text
	case "survey":
		all := []query{confirm("Sure?"),
			{key: "login", message: "Sign in", url: "https://example.com/in"},
			{key: "summary", message: "Summarize.", sample: true}, {key: "dirs", roots: true}}
		for _, q := range all {
			missing(q)
		}
		if ask != nil {
			return ask, ""
		}
		return nil, fmt.Sprintf("%v, visit %s, %s, %s", got["confirm"].content["reason"],
			got["login"].action, got["summary"].text, got["dirs"].text)
	case "fail":
		if missing(confirm("Fail?")) {
			return ask, ""
		}
		return nil, "error: the disk is full"
	}
	return nil, "error: no script for " + target
}

// failure returns the text of a failure.
func failure(text string) (string, bool) { return strings.CutPrefix(text, "error: ") }

func raw(text string) json.RawMessage { return json.RawMessage(text) }
