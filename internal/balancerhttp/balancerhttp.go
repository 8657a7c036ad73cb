// Package balancerhttp lets tests stand a [httputil.ReverseProxy] before a server, as a balancer
// is.
package balancerhttp

import "net/http"

// FullDuplex returns a handler that lets next, a [httputil.ReverseProxy], write a response before
// it has read the end of the request. Otherwise net/http closes the body with the first write,
// and where the proxy has not seen the end of it by then its transport takes that for an error
// and closes the connection to the server in the middle of the response.
func FullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic("balancerhttp: " + err.Error())
		}
		next.ServeHTTP(w, r)
	})
}
