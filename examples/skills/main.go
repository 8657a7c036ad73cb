// Skills is a server of Agent Skills: folders with instructions for models in a file SKILL.md
// (SEP-2640, the extension io.modelcontextprotocol/skills). It shows the parts of an extension:
// resources, its own methods, and server.AddExtension.
//
//	go run ./examples/skills                             # standard input and output
//	go run ./examples/skills -http 127.0.0.1:8080        # http://127.0.0.1:8080/mcp
//	go run ./examples/skills -dir path/of/your/skills
//
// Copy skills.go and pages.go to serve skills beside your own tools.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

//go:embed skills
var builtIn embed.FS

func main() {
	address := flag.String("http", "", "serve over HTTP at this `address`; empty: standard "+
		"input and output")
	dir := flag.String("dir", "", "the `folder` with the skills; empty: two that are built in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "skills:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, dir string) error {
	files, err := fs.Sub(builtIn, "skills")
	if dir != "" {
		var root *os.Root // no name and no link can lead out of it
		if root, err = os.OpenRoot(dir); err == nil {
			defer root.Close()
			files = root.FS()
		}
	}
	if err != nil {
		return err
	}
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "skills", Version: "1.0.0"}})
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := addSkills(srv, files); err != nil {
		return err
	}
	if address == "" {
		return srv.ServeStdio(ctx)
	}
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { web.Close() })
	if err := web.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}
