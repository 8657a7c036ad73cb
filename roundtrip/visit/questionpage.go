package visit

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/htmlform"
	"github.com/rondo-mcp/rondo/protocol"
)

//go:embed question.html
var questionHTML string

//go:embed refusal.html
var refusalHTML string

//go:embed question.css
var questionCSS string

const (
	// maxAnswerBytes bounds the input as JSON, so that the record stays below maxRecordBytes.
	maxAnswerBytes = 32 << 10
	maxName        = 200 // shown, in bytes
)

// A QuestionView is a template's data: the call's texts, cut, control characters escaped, no HTML.
type QuestionView struct {
	// Server asks because of a call of Method, such as tools/call, for Target, such as a tool.
	Server, Method, Target string
	Arguments              string // of the call, if [QuestionOptions].ShowArguments is set
	Message                string // may have several lines
	// Form has fields, errors, and buttons to send and decline, in HTML. Empty once answered.
	Form    template.HTML
	Invalid bool                  // the input has errors
	Done    protocol.ElicitAction // accept or decline once answered, else empty
	// Nonce allows a style: <style nonce="{{.Nonce}}">. All else, scripts included, is blocked.
	Nonce string
	Style template.CSS // the built-in style sheet
}

type formView struct {
	*htmlform.Form
	TokenField, Token, Visit string
}

func (v formView) Faulty() (list []htmlform.Field) {
	for _, f := range v.Fields {
		if f.Fault != "" {
			list = append(list, f)
		}
	}
	return list
}

// ServeHTTP serves the page.
func (p *Questions) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.page.ServeHTTP(w, r) }

// serve shows the question and handles its form.
func (p *Questions) serve(w http.ResponseWriter, r *http.Request,
	v *Visit[question, json.RawMessage]) {
	var shown *htmlform.Form
	parsed, err := form.ParsePeer(v.About.Form)
	if err == nil {
		shown, err = htmlform.New(parsed, r.PostForm)
	}
	if err != nil { // of a version that supported other forms
		refuseStranger.writePage(w)
		return
	}
	view := &QuestionView{Server: htmlform.Text(p.opts.Server, maxName),
		Method:    htmlform.Text(v.About.Method, maxName),
		Target:    htmlform.Text(v.About.Target, maxName),
		Arguments: htmlform.Text(v.About.Arguments, maxRecordBytes),
		Message:   htmlform.Text(v.About.Message, maxRecordBytes), Nonce: rand.Text(),
		Style: template.CSS(questionCSS)}
	status := http.StatusOK
	if answer := readAnswer(r, shown); answer != nil {
		switch err := v.Finish(r.Context(), answer.encoded); {
		case err == nil:
			view.Done = answer.action
		case errors.Is(err, ErrOver):
			v.reportServed(r.Context(), refuseOver.how)
			refuseOver.writePage(w)
			return
		default:
			shown.Fault, status = refuseStore.text, refuseStore.status
		}
	}
	fields := formView{shown, TokenField, v.Token, v.id}
	view.Invalid = shown.Fault != "" || len(fields.Faulty()) > 0
	if view.Invalid && status == http.StatusOK {
		status = http.StatusUnprocessableEntity
	}
	var page, inner bytes.Buffer
	if view.Done == "" {
		err = p.body.ExecuteTemplate(&inner, "form", fields)
		view.Form = template.HTML(inner.String())
	}
	if err == nil {
		err = p.opts.Template.Execute(&page, view)
	}
	if err != nil {
		http.Error(w, "The page cannot be written.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", fmt.Sprintf("%s; style-src 'nonce-%s'",
		h.Get("Content-Security-Policy"), view.Nonce))
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// The type entered is an answer in wire form.
type entered struct {
	action  protocol.ElicitAction
	encoded json.RawMessage
}

// readAnswer returns the browser's answer, or nil if it is missing or invalid.
func readAnswer(r *http.Request, shown *htmlform.Form) *entered {
	var result struct {
		Action  protocol.ElicitAction `json:"action"`
		Content json.RawMessage       `json:"content,omitempty"`
	}
	if r.Method != http.MethodPost {
		return nil
	}
	switch result.Action = protocol.ElicitAction(r.PostFormValue("action")); result.Action {
	case protocol.ActionDecline:
	case protocol.ActionAccept:
		var err error
		if result.Content, err = shown.Answer(); err != nil {
			return nil
		}
	default:
		shown.Fault = "Use one of the buttons of the form."
		return nil
	}
	encoded, err := json.Marshal(result)
	if err != nil || len(encoded) > maxAnswerBytes {
		shown.Fault = fmt.Sprintf("That is too long: all answers together take %d bytes, and %d "+
			"are allowed.", len(encoded), maxAnswerBytes)
		return nil
	}
	return &entered{result.Action, encoded}
}
