// Approve is a tool that asks a person before it pays, with four clients. They show forms, show
// links, decline everything, or show nothing. Each call reaches the person.
//
//	go run ./examples/approve         # asks you, at the terminal and in your browser
//	go run ./examples/approve -auto   # answers by itself, as a browser would
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
)

// Payment is the model's input. Approval is the person's form.
type Payment struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

type Approval struct {
	Reason string `json:"reason" title:"Reason" minLength:"3"`
}

// pay does not know how its question gets to the person.
func pay(ctx context.Context, _ *server.ToolCall, in Payment) (protocol.CallToolOutcome, error) {
	approved, err := roundtrip.Ask[Approval](ctx, "approve",
		fmt.Sprintf("Pay %d EUR to %s?", in.Amount, in.To))
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("paid %d EUR: %s", in.Amount, approved.Reason)), nil
}

func main() {
	p := &person{in: bufio.NewReader(os.Stdin), out: os.Stdout}
	flag.BoolVar(&p.auto, "auto", false, "answer by itself")
	flag.Parse()
	if err := run(context.Background(), p); err != nil {
		log.Fatal("approve: ", err)
	}
}

func run(ctx context.Context, p *person) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page, err := visit.NewQuestions("http://"+listener.Addr().String()+"/approve",
		&visit.QuestionOptions{Options: visit.Options{Visitor: visit.LocalVisitor}, Server: "The bank"})
	if err != nil {
		return err
	}
	web := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	go web.Serve(listener)
	defer web.Close()
	for i, c := range []struct {
		what string
		opts client.Options
	}{
		{"shows forms", client.Options{ElicitForm: p.fillForm}},
		{"shows links", client.Options{ElicitURL: p.followLink}},
		{"declines at once", client.Options{ElicitForm: func(context.Context,
			*client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Decline(), nil
		}}},
		{"shows nothing", client.Options{}},
	} {
		fmt.Fprintf(p.out, "== A client that %s\n", c.what)
		if err := call(ctx, page, &c.opts, p, Payment{"Ada", 100 + i}); err != nil {
			return err
		}
	}
	return nil
}

var link = regexp.MustCompile(`http://\S+`)

// call makes a client call the tool, and follows the result's instructions to the model.
func call(ctx context.Context, page *visit.Questions, opts *client.Options, p *person,
	in Payment) error {
	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{
		Page:         page,
		MinHumanTime: 400 * time.Millisecond, // the default, except in-process
	}})
	if err != nil {
		return err
	}
	server.AddTool(srv, server.Tool{Name: "pay", Description: "Pays from the account."}, pay)
	c, err := client.New(srv, opts)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 3 {
		result, err := c.CallTool(ctx, "pay", in)
		if err != nil {
			return err
		}
		text := result.Content[0].(*protocol.TextContent).Text
		fmt.Fprintf(p.out, "model reads: %s\n", text)
		shown := link.FindString(text)
		if shown == "" {
			return nil
		}
		if err := p.open(shown); err != nil {
			return err
		}
	}
	return errors.New("nobody has answered")
}

// A person is you, or if auto is set a program that approves everything.
type person struct {
	in   *bufio.Reader
	out  io.Writer
	auto bool
}

func (p *person) enter(prompt string) string {
	if p.auto {
		return "as agreed"
	}
	fmt.Fprint(p.out, prompt)
	line, _ := p.in.ReadString('\n') // empty at the end of the input
	return strings.TrimSpace(line)
}

func (p *person) fillForm(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
	error) {
	fmt.Fprintln(p.out, "client shows a form:", q.Message)
	return client.Accept(Approval{p.enter("Reason: ")})
}

func (p *person) followLink(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult,
	error) {
	fmt.Fprintln(p.out, "client shows a link:", q.Message)
	return &protocol.ElicitResult{Action: protocol.ActionAccept}, p.open(q.URL)
}

// open waits until you have answered behind the link. With auto it acts like a browser.
func (p *person) open(link string) error {
	fmt.Fprintln(p.out, "person opens:", link)
	entered := p.enter("Press Enter when you have answered there. ")
	jar, err := cookiejar.New(nil)
	if err != nil || !p.auto {
		return err
	}
	browser := &http.Client{Jar: jar}
	shown, err := browser.Get(link)
	if err != nil {
		return err
	}
	defer shown.Body.Close()
	page, err := io.ReadAll(shown.Body)
	token := hidden.FindSubmatch(page)
	if err != nil || token == nil {
		return cmp.Or(err, errors.New(shown.Status))
	}
	form := url.Values{"field.reason": {entered}, "action": {"accept"},
		visit.TokenField: {string(token[1])}}
	post, err := http.NewRequest(http.MethodPost, link, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post.Header.Set("Origin", "http://"+post.URL.Host)
	sent, err := browser.Do(post)
	if err != nil {
		return err
	}
	return sent.Body.Close()
}

var hidden = regexp.MustCompile(`name="` + visit.TokenField + `" value="([^"]+)"`)
