package interop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// This is the script for servers of other makes. It describes the subject in common terms.

// A turn is a handler's input.
type turn struct {
	target  string
	args    map[string]string
	replies replies
	state   string
}

// The type replies has the client's answers by key.
type replies map[string]reply

type reply struct {
	action  string // answer to a form or a visit
	content map[string]any
	text    string   // a model's answer
	uris    []string // URIs of directories
}

// A question asks for a form, a visit to a URL, a model's message, or directories.
type question struct {
	key, message string
	schema       json.RawMessage
	url          string
	sample       bool
}

func (q question) roots() bool { return q.message == "" }

type step struct {
	text   string
	failed bool
	ask    []question
	state  string
}

const (
	confirmSchema = `{"type":"object","properties":{"reason":{"type":"string","minLength":3}},"required":["reason"]}`
	regionSchema  = `{"type":"object","properties":{"name":{"type":"string","enum":["eu","us"]}},"required":["name"]}`
	sizeSchema    = `{"type":"object","properties":{"cores":{"type":"integer","default":2},"spare":{"type":"boolean"}}}`
	contactSchema = `{"type":"object","properties":{"email":{"type":"string","format":"email"}},"required":["email"]}`
)

func form(key, message, schema string) question {
	return question{key: key, message: message, schema: json.RawMessage(schema)}
}

func answer(text string) step { return step{text: text} }

func ask(state string, questions ...question) step { return step{ask: questions, state: state} }

// script plays every handler of a server: tools and prompts by name, resources by URI.
func script(t turn) step {
	if strings.HasPrefix(t.target, "vault://") {
		return t.guarded(form("confirm", "Open "+t.target+"?", confirmSchema),
			func(r reply) string { return "opened: " + r.field("reason") })
	}
	switch t.target {
	case "plain":
		return answer("plain")
	case "deploy":
		return t.deploy()
	case "slow":
		return t.guarded(form("confirm", "Go on?", confirmSchema),
			func(reply) string { return "went on" })
	case "wizard":
		return t.wizard()
	case "provision":
		return t.guarded(form("region", "Which region?", regionSchema),
			func(r reply) string { return `{"region":"` + r.field("name") + `"}` })
	case "summarize":
		if r, ok := t.replies["summary"]; ok {
			return answer("model-1 says: " + r.text)
		}
		return ask("asked", question{key: "summary", message: "Summarize.", sample: true})
	case "tidy":
		if r, ok := t.replies["dirs"]; ok {
			return answer("tidied " + strings.Join(r.uris, " "))
		}
		return ask("", question{key: "dirs"}) // the only question without a state
	case "sign_in":
		if r, ok := t.replies["login"]; ok {
			return answer("visit " + r.outcome())
		}
		return ask("asked", question{key: "login", message: "Sign in",
			url: "https://example.com/in"})
	case "survey":
		return t.survey()
	case "poll":
		if t.state == "11" {
			return answer("ready")
		}
		return ask(t.state + "1")
	case "fail":
		s := t.guarded(form("confirm", "Fail?", confirmSchema),
			func(reply) string { return "the disk is full" })
		s.failed = s.ask == nil
		return s
	case "brief":
		return t.guarded(form("contact", "Who reads it?", contactSchema), func(r reply) string {
			return "Write about " + t.args["topic"] + " for " + r.field("email")
		})
	}
	return step{text: "nothing is called " + t.target, failed: true}
}

// effectsFile is the environment variable for a file that gets a line for each call's effect.
const effectsFile = "EFFECTS"

// markEffect counts effects: the start of a handler that asks in place, or another's final act.
func markEffect() {
	name := os.Getenv(effectsFile)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("done\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

func returned(t turn) step {
	s := script(t)
	if s.text != "" {
		markEffect()
	}
	return s
}

// The function pushed plays all turns at once, like a handler that asks in place, with put.
func pushed(t turn, put func(question) (reply, error)) step {
	markEffect()
	for {
		s := script(t)
		if s.text != "" {
			return s
		}
		t.state, t.replies = s.state, replies{}
		var mu sync.Mutex
		var failed error
		var all sync.WaitGroup
		for _, q := range s.ask {
			all.Go(func() {
				r, err := put(q)
				mu.Lock()
				defer mu.Unlock()
				t.replies[q.key] = r
				failed = errors.Join(failed, err)
			})
		}
		all.Wait()
		if failed != nil {
			return step{text: failed.Error(), failed: true}
		}
	}
}

// The method guarded asks one question, and continues only if it is accepted.
func (t turn) guarded(q question, goOn func(reply) string) step {
	switch r, ok := t.replies[q.key]; {
	case !ok:
		return ask("asked", q)
	case r.action == "accept":
		return answer(goOn(r))
	default:
		return step{text: "declined: " + q.key, failed: true}
	}
}

func (t turn) deploy() step {
	switch r, ok := t.replies["confirm"]; {
	case !ok:
		return ask("asked", form("confirm", "Deploy to "+t.args["env"]+"?", confirmSchema))
	case r.action == "accept":
		return answer("deployed to " + t.args["env"] + ": " + r.field("reason"))
	default:
		return answer("left " + t.args["env"] + " alone: " + r.outcome())
	}
}

// wizard keeps earlier answers in the state, unencrypted, because each answer is sent only once.
func (t turn) wizard() step {
	kept := map[string]string{}
	if t.state != "" {
		if err := json.Unmarshal([]byte(t.state), &kept); err != nil {
			return step{text: err.Error(), failed: true}
		}
	}
	for key, r := range t.replies {
		if r.action != "accept" {
			return step{text: "declined: " + key, failed: true}
		}
		for field := range r.content {
			kept[field] = r.field(field)
		}
	}
	state, err := json.Marshal(kept)
	if err != nil {
		return step{text: err.Error(), failed: true}
	}
	switch {
	case kept["name"] == "":
		return ask(string(state), form("region", "Which region?", regionSchema))
	case kept["cores"] == "":
		return ask(string(state), form("size", "How big in "+kept["name"]+"?", sizeSchema))
	case kept["email"] == "":
		return ask(string(state), form("contact", "Who is told?", contactSchema))
	}
	return answer(fmt.Sprintf("%s cores in %s for %s, saw %s", kept["cores"], kept["name"],
		kept["email"], kept["name"]))
}

func (t turn) survey() step {
	if len(t.replies) < 4 {
		return ask("asked",
			form("confirm", "Sure?", confirmSchema),
			question{key: "summary", message: "Summarize.", sample: true},
			question{key: "dirs"},
			question{key: "login", message: "Sign in", url: "https://example.com/in"})
	}
	confirmed := t.replies["confirm"]
	return answer(fmt.Sprintf("%s %s, %s, %s, visit %s", confirmed.outcome(),
		confirmed.field("reason"), t.replies["summary"].text,
		strings.Join(t.replies["dirs"].uris, " "), t.replies["login"].outcome()))
}

func (r reply) field(name string) string { return fmt.Sprint(r.content[name]) }

func (r reply) outcome() string {
	return map[string]string{"accept": "accepted", "decline": "declined",
		"cancel": "cancelled"}[r.action]
}

func scripted() []string {
	return []string{"plain", "deploy", "slow", "wizard", "provision", "summarize", "tidy",
		"sign_in", "survey", "poll", "fail"}
}
