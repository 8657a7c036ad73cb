// Longrun shows a call that outlives the server which accepted it. Two servers share a SQLite file.
// One counts the words of a book and is killed (kill -9) in the middle. The other resumes there,
// asks a person, and finishes. For the client this is one call.
//
//	go run ./examples/longrun
//
// Longrun starts both servers, prints their output, and ends within about 10 seconds.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// These variables tell the servers the shared file and keys.
const envFile, envKeys = "LONGRUN_FILE", "LONGRUN_KEYS"

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal("longrun: ", err)
	}
}

// run makes a client call two servers, which are processes of this program.
func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if file := os.Getenv(envFile); file != "" {
		return serve(ctx, file)
	}
	folder, err := os.MkdirTemp("", "longrun")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	secret := []byte(rand.Text() + rand.Text())
	env := append(os.Environ(), envFile+"="+filepath.Join(folder, "tasks.db"),
		envKeys+"=first:"+base64.StdEncoding.EncodeToString(secret))
	said := log.New(out, "", log.Ltime)
	a, stop, err := start(ctx, said, "server A", "counts chapter 2", env)
	if err != nil {
		return err
	}
	defer stop()
	b, stop, err := start(ctx, said, "server B", "", env)
	if err != nil {
		return err
	}
	defer stop()
	return call(ctx, said, a, b)
}

// start starts a server, which first prints its address, and kills it when it prints killAt.
func start(ctx context.Context, said *log.Logger, name, killAt string, env []string) (
	address string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = env, os.Stderr
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return "", nil, err
	}
	lines, ended := bufio.NewScanner(stdout), make(chan struct{})
	lines.Scan()
	address = lines.Text()
	go func() {
		defer close(ended)
		for lines.Scan() {
			said.Printf("%s: %s", name, lines.Text())
			if lines.Text() == killAt {
				_ = cmd.Process.Kill()
				said.Printf("longrun:  kills %s", name)
			}
		}
		_ = cmd.Wait()
	}()
	return address, func() { stdin.Close(); <-ended }, nil
}

// call calls the tool on the first reachable server, and waits.
func call(ctx context.Context, said *log.Logger, servers ...string) error {
	web := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (
		conn net.Conn, err error) {
		for _, address := range servers {
			if conn, err = new(net.Dialer).DialContext(ctx, network, address); err == nil {
				break
			}
		}
		return conn, err
	}}
	defer web.CloseIdleConnections()
	transport, err := clienthttp.New("http://localhost/",
		&clienthttp.Options{HTTPClient: &http.Client{Transport: web}})
	if err != nil {
		return err
	}
	c, err := client.New(transport, &client.Options{Tasks: true, ElicitForm: func(
		_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		said.Printf("person:   is asked %q", q.Message)
		time.Sleep(time.Second)
		said.Print("person:   answers 20")
		return client.Accept(Print{Copies: 20})
	}})
	if err != nil {
		return err
	}
	defer c.Close()
	said.Print("client:   calls the tool")
	result, err := c.CallTool(ctx, "count", Book{Chapters: 3})
	if err != nil {
		return err
	}
	said.Printf("client:   has %q", result.Content[0].(*protocol.TextContent).Text)
	return nil
}

// serve runs one of the servers until its standard input ends.
func serve(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlstore.CreateTables(ctx, db, sqlstore.SQLite); err != nil {
		return err
	}
	shared, err := sqlstore.New(ctx, db, &sqlstore.Options{Dialect: sqlstore.SQLite})
	if err != nil {
		return err
	}
	ring, err := keys.KeyringFromEnv(os.LookupEnv, envKeys)
	if err != nil {
		return err
	}
	srv, err := server.New(&server.Options{
		Info:       protocol.Implementation{Name: "library", Version: "1.0.0"},
		Middleware: []server.Middleware{printAnswers},
		Roundtrip:  roundtrip.Options{Sealer: ring, Guard: shared},
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "count", Task: server.TaskMust}, count)
	added, err := tasks.New(srv, &tasks.Options{Store: shared, Keys: ring,
		Lease: 3 * time.Second, Sweep: time.Second}) // short, so that the demo is quick
	if err != nil {
		return err
	}
	defer added.Shutdown(ctx)
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go web.Serve(listener)
	defer web.Close()
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func printAnswers(next server.Handler) server.Handler {
	return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
		result, err := next(ctx, r)
		if got, ok := result.(*protocol.GetTaskResult); ok {
			fmt.Printf("answers tasks/get: %s, %q\n", got.Task.State.Status(), got.Task.Message)
		} else if !r.InTask() {
			fmt.Printf("answers %s\n", r.Message.Method)
		}
		return result, err
	}
}

// Book is the tool's input.
type Book struct {
	Chapters int `json:"chapters" minimum:"1" maximum:"9"`
}

// Print is the person's form.
type Print struct {
	Copies int `json:"copies" minimum:"1" maximum:"1000"`
}

// The tool count knows no processes. Each run begins here, with all earlier counts and answers.
func count(ctx context.Context, _ *server.ToolCall, book Book) (protocol.CallToolOutcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	fmt.Println("runs the tool, from its beginning")
	words := 0
	for chapter := 1; chapter <= book.Chapters; chapter++ {
		n, err := roundtrip.Memo(ctx, fmt.Sprint("chapter-", chapter),
			func(ctx context.Context) (int, error) { return countChapter(ctx, chapter) })
		if err != nil {
			return nil, err
		}
		words += n
	}
	printed, err := roundtrip.Ask[Print](ctx, "print",
		fmt.Sprintf("The book has %d words. How many copies?", words))
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%d copies of %d words", printed.Copies, words)), nil
}

func countChapter(ctx context.Context, chapter int) (int, error) {
	fmt.Println("counts chapter", chapter)
	tasks.StatusMessage(ctx, fmt.Sprintf("counting chapter %d", chapter))
	select {
	case <-time.After(time.Second):
		return 1000 * chapter, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
