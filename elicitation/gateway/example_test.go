package gateway_test

import (
	"log"
	"net/http"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
)

func ExampleNew() {
	g, err := gateway.New(&gateway.Options{
		Upstreams: []gateway.Upstream{
			{Name: "docs", Connect: gateway.HTTP("https://docs.example/mcp", nil)},
			{Name: "files", Connect: gateway.Command("files-server", "--root", "/srv")},
		},
		Logger: zap.NewExample(),
	})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := g.Handler(nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}
