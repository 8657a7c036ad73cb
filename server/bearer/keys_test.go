package bearer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/server/bearer"
)

// wantUnavailable checks that a token is neither accepted nor refused.
func wantUnavailable(t testing.TB, response *http.Response, after string) {
	t.Helper()
	wantRefusal(t, response, http.StatusServiceUnavailable, "")
	wantEqual(t, "Retry-After", response.Header.Get("Retry-After"), after)
}

// While keys are rotated no token is refused, whichever key has signed it.
func TestKeysAreRotatedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, uncached)
		for round := range 5 {
			g.run(fmt.Sprint("keep=old rotate=next-", round))
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() { g.run("good old") })
			}
			all.Wait()
			time.Sleep(time.Minute)
		}
		if n := g.count("/keys"); n > 6 {
			t.Errorf("the keys were fetched %d times for 5 rotations", n)
		}
	})
}

// In 30 s, 10,000 tokens with made-up keys lead to one fetch.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.run("good sleep=1h")
		for n := range 10_000 {
			key := jose.JSONWebKey{Key: newKey(t), KeyID: fmt.Sprint(n)}
			issued := time.Now().Add(-10 * time.Minute).Unix()
			forged := sign(t, jose.ES256, key, "at+jwt", claimsOf(map[string]any{"iat": issued}))
			response := send(t, g, forged)
			if n > 0 {
				wantInvalid(t, response, "key")
			}
		}
		// A good token of a newer key gets 503, because it may be accepted later.
		g.run("keys=2 rotate=new keep=new new:503=30")
		// The log does not say that the issuer is down.
		why := "has not published the key of the token: its key set of " +
			time.Now().UTC().Format(time.RFC3339)
		if _, err := identify(g, g.kept["new"]); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want an error that says %q", err, why)
		}
		g.run("sleep=30s new")
	})
}

func TestIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := make(chan string, 10)
		g := newGuarded(t, uncached, func(o *bearer.Options) {
			o.FetchFailed = func(issuer string, err error) {
				failures <- fmt.Sprint(issuer, ": ", err)
				panic("a panic of the host's, which changes nothing")
			}
		})
		g.run("keep=x keep=y down x:503=5 y:503=5 " +
			".well-known/oauth-authorization-server/tenant=1 up sleep=5s good")
		g.run("down sleep=23h good") // if keys cannot be refetched, they are used for a day
		synctest.Wait()              // the fetch in the background has failed
		if n := len(failures); n != 2 {
			t.Errorf("the host was told of %d failures, want 2", n)
		}
		if said := <-failures; !strings.HasPrefix(said, issuerURL+": ") ||
			!strings.Contains(said, "connection refused") {
			t.Errorf("the host was told %q", said)
		}
		g.run("sleep=2h keep=z z:503=5")
	})
}

// Keys are fresh as long as their issuer says, within bounds.
func TestKeysAreFreshAsLongAsTheirIssuerSays(t *testing.T) {
	for cache, fresh := range map[string]time.Duration{
		"":                    15 * time.Minute,
		"no-store":            15 * time.Minute,
		"max-age=0":           time.Minute,
		"public, max-age=120": 2 * time.Minute,
		"max-age=999999999":   24*time.Hour - time.Second, // after that the keys are too old
		"max-age=x":           15 * time.Minute,
	} {
		t.Run(cache, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuarded(t, uncached)
				g.headers.Set("Cache-Control", cache)
				g.run(fmt.Sprintf("good keys=1 sleep=%v good", fresh-time.Second))
				synctest.Wait()
				g.run("keys=1 sleep=3s")
				send(t, g, g.token(nil))
				synctest.Wait()
				g.run("keys=2")
			})
		})
	}
}

// First callers share a fetch, and a caller that gives up does not disturb the others.
func TestFirstCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, hold := newGuarded(t), make(chan struct{})
		g.hold = hold
		g.run("keep=x")
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { wantUnavailable(t, sendAs(ctx, g, g.kept["x"], ""), "5") })
		synctest.Wait()
		for range 63 {
			all.Go(func() { g.run("x") })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		all.Wait()
		g.run("keys=1")
	})
}

func TestRefusedMetadataIsNoReasonToLookElsewhere(t *testing.T) {
	for name, change := range map[string]func(m map[string]any){
		"issuer with a slash": func(m map[string]any) { m["issuer"] = issuerURL + "/" },
		"other case": func(m map[string]any) {
			m["issuer"] = "https://LOGIN.example.com/tenant"
		},
		"without issuer": func(m map[string]any) { delete(m, "issuer") },
		"without keys":   func(m map[string]any) { delete(m, "jwks_uri") },
		"keys over http": func(m map[string]any) {
			m["jwks_uri"] = "http://login.example.com/keys"
		},
		"keys in a file":   func(m map[string]any) { m["jwks_uri"] = "file:///etc/passwd" },
		"keys are no text": func(m map[string]any) { m["jwks_uri"] = 7 },
		// Keys of an issuer elsewhere are fetched by TLS, even if its metadata names this machine.
		"keys on this machine": func(m map[string]any) { m["jwks_uri"] = "http://127.0.0.1/keys" },
		"longer than 256 KiB":  func(m map[string]any) { m["x"] = string(make([]byte, 256<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			change(g.metadata)
			g.run("keep=x x:503=5")
			if n := len(g.requests); n != 1 {
				t.Errorf("%d documents were asked for, want 1: %v", n, g.requests)
			}
		})
	}
}

// The first place of the issuer's metadata has a page, an error or a redirect.
func TestMetadataInAnotherPlaceOfItsIssuer(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"page":  func(w http.ResponseWriter) { fmt.Fprint(w, "<!DOCTYPE html><p>Welcome.") },
		"error": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"busy":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"none":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"empty": func(http.ResponseWriter) {},
		"list":  func(w http.ResponseWriter) { fmt.Fprint(w, "[]") },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://evil.example.com/metadata")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.firstPlace = answer
			g.run("good metadata=0") // the redirect is not followed
			g = newGuarded(t)
			g.firstPlace, g.metadata["issuer"] = answer, "https://evil.example.com"
			g.run("keep=x x:503=5")
		})
	}
}

// Keys that cannot verify are left out. A key set out of bounds is refused as a whole.
func TestKeysThatCannotVerifyAreLeftOut(t *testing.T) {
	f := newFakeIssuer(t)
	for name, key := range map[string]jose.JSONWebKey{
		"for encryption":       {Key: f.signer.Public().Key, KeyID: "k1", Use: "enc"},
		"of another algorithm": {Key: f.signer.Public().Key, KeyID: "k1", Algorithm: "ES384"},
		"private":              {Key: f.signer.Key, KeyID: "k1"},
		"symmetric":            {Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "k1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.with(func(o *fakeIssuer) { o.signer, o.keys = f.signer, []jose.JSONWebKey{key} })
			if send(t, g, g.token(nil)).StatusCode == http.StatusOK {
				t.Error("the key has verified a token")
			}
		})
	}
	g := newGuarded(t)
	for range 100 {
		g.keys = append(g.keys, g.keys[0])
	}
	g.run("keep=x x:503=5")

	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err)
	}
	g = newGuarded(t)
	g.keys = []jose.JSONWebKey{{Key: short.Public(), KeyID: "short"}}
	g.kept["x"] = sign(t, jose.RS256, jose.JSONWebKey{Key: short, KeyID: "short"}, "",
		claimsOf(nil))
	g.run("x:key")
}

// Keys in Issuer.Keys are never fetched: the issuer may be unreachable.
func TestGivenKeysAreNeverFetched(t *testing.T) {
	f := newFakeIssuer(t)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key: f.signer.Public().Key, KeyID: "k1"}}})
	check(t, err)
	g := &guarded{f, newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) { i.Keys = set })),
		map[string]string{}}
	g.run("good rotate=k2 keep=x x:key")
	if len(f.requests) != 0 {
		t.Errorf("the issuer was asked: %v", f.requests)
	}
}

// A token without a key id is verified with any key of the issuer.
func TestTokensWithoutKeyID(t *testing.T) {
	g := newGuarded(t)
	g.kept["x"] = sign(t, jose.ES256, g.signer.Key, "", claimsOf(nil))
	g.run("rotate=k2 x")
}

func introspecting(o *bearer.Options) {
	o.Issuers[0].Introspection = &bearer.Introspection{
		URL: "https://login.example.com/introspect", ClientID: "rs:1", ClientSecret: "s&cret"}
}

func TestIntrospection(t *testing.T) {
	for name, of := range map[string]struct {
		changes map[string]any
		why     string // empty: the token passes; "503": it cannot be verified
	}{
		"good":           {nil, ""},
		"without expiry": {map[string]any{"exp": nil}, ""},
		"without issuer": {map[string]any{"iss": nil}, ""},
		"null": {map[string]any{"exp": json.RawMessage("null"), "iss": json.RawMessage("null"),
			"nbf": json.RawMessage("null"), "azp": json.RawMessage("null"),
			"cnf": json.RawMessage("null")}, ""},
		"active is null":            {map[string]any{"active": json.RawMessage("null")}, "503"},
		"audience is null":          {map[string]any{"aud": json.RawMessage("null")}, audience},
		"inactive":                  {map[string]any{"active": false}, "inactive"},
		"active is text":            {map[string]any{"active": "true"}, "503"},
		"without active":            {map[string]any{"active": nil}, "503"},
		"other issuer":              {map[string]any{"iss": "https://evil.example.com"}, "issuer"},
		"other audience":            {map[string]any{"aud": "https://other.example.com"}, audience},
		"without audience":          {map[string]any{"aud": nil}, audience},
		"expired":                   {map[string]any{"exp": 1}, "expired"},
		"DPoP":                      {map[string]any{"token_type": "DPoP"}, "type"},
		"neither person nor client": {map[string]any{"sub": nil, "client_id": nil}, "subject"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, introspecting)
			g.says = claimsOf(of.changes, "active", true, "token_type", "Bearer")
			response := send(t, g, "opaque-token")
			switch of.why {
			case "":
				wantPassed(t, response, alice)
			case "503":
				wantUnavailable(t, response, "5")
			default:
				wantInvalid(t, response, of.why)
			}
		})
	}
}

// Introspections that say nothing of the token always give 503, so that clients keep tokens.
func TestIntrospectionsThatSayNothingOfTheToken(t *testing.T) {
	const good = `"active":true,"sub":"alice","aud":"` + resource + `"`
	for name, body := range map[string]string{
		"an error with status 200": `{"error":"invalid_client"}`,
		"a member twice":           `{` + good + `,"active":false}`,
		"two people":               `{` + good + `,"sub":"bob"}`,
		"a form":                   `active=true&sub=alice`, "a page": `<p>`, "nothing": ``,
		"too much": `{` + good + `,"x":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			newGuarded(t, introspecting, func(o *bearer.Options) {
				o.HTTPClient = &http.Client{Transport: saying(body)}
			}).run("x:503=5 x:503=5 x:503=5")
		})
	}
}

// The cache keeps active tokens for 30 s and inactive ones for 5 s, independently.
func TestIntrospectionIsRemembered(t *testing.T) {
	inFakeTime(t, "keep=t active t t t inactive t sleep=30s t:inactive t:inactive t:inactive "+
		"introspect=2 sleep=5s down t:503=5 up active t", introspecting)
	inFakeTime(t, "keep=t active t inactive a:inactive b:inactive c:inactive d:inactive t",
		introspecting, func(o *bearer.Options) { o.MaxCachedTokens = 2 })
}

// Tokens to be introspected are not verified here, and are only sent to their own issuer.
func TestTokensThatAreIntrospectedAreNotVerifiedHere(t *testing.T) {
	g := newGuarded(t, introspecting)
	g.kept["symmetric"] = sign(t, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), "",
		claimsOf(nil))
	g.kept["nobody's"] = g.token(map[string]any{"iss": nil})
	g.kept["foreign"] = g.token(map[string]any{"iss": "https://other.example.com"})
	g.run("active symmetric nobody's introspect=2 foreign:issuer introspect=2")
}

// For made-up tokens 64 look-ups run at a time, while the others wait.
func TestMadeUpTokensDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, hold := newGuarded(t, introspecting, withIssuer(func(i *bearer.Issuer) {
			i.MaxFailedLookUps = 10_000
		})), make(chan struct{})
		g.run("inactive")
		g.hold = hold
		var all sync.WaitGroup
		for n := range 1000 {
			all.Go(func() { g.run(fmt.Sprintf("made-up-%d:inactive", n)) })
		}
		synctest.Wait()
		g.run("introspect=64") // at the same time
		close(hold)
		all.Wait()
		g.run("introspect=1000")
	})
}

// Tokens that no request waits for are not introspected, and hold no goroutine and no slot.
func TestTokensThatNobodyWaitsForAreNotIntrospected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, hold := newGuarded(t, introspecting), make(chan struct{})
		g.run("active")
		g.hold = hold
		ctx, leave := context.WithCancel(t.Context())
		var gone, waiting sync.WaitGroup
		for n := range 1000 {
			gone.Go(func() {
				wantUnavailable(t, sendAs(ctx, g, fmt.Sprint("made-up-", n), ""), "5")
			})
		}
		synctest.Wait()
		waiting.Go(func() { g.run("made-up-999") })
		waiting.Go(func() { g.run("other") })
		synctest.Wait()
		leave()
		gone.Wait()
		waiting.Go(func() { g.run("made-up-998") })
		synctest.Wait()
		close(hold)
		waiting.Wait()
		synctest.Wait()
		if n := g.count("/introspect"); n > 64+3 {
			t.Errorf("the issuer was asked about %d tokens, want at most 67", n)
		}
	})
}

// Verified tokens are cached until they expire, but for at most five minutes.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.SetLeeway(0)
		g.kept["short"] = g.token(map[string]any{"exp": time.Now().Add(20 * time.Second).Unix()})
		g.run("keep=long long short forget rotate=k2")
		g.headers.Set("Cache-Control", "max-age=60")
		g.run("sleep=20s short:expired sleep=4m long sleep=55m")
		g.run("good long:key") // the good token causes a fetch of today's keys
	})
}

func TestMetadata(t *testing.T) {
	g := newResourceServer(t, newFakeIssuer(t), func(o *bearer.Options) {
		o.Supported, o.Name = []string{"files:read"}, "Files"
	})
	path, h := g.Metadata()
	if want := "/.well-known/oauth-protected-resource/mcp"; path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	ask := func(method, tag string) *http.Response {
		r := httptest.NewRequest(method, "http://spoofed.example"+path, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	got := ask(http.MethodGet, "")
	var document map[string]any
	check(t, json.NewDecoder(got.Body).Decode(&document))
	want := `map[authorization_servers:[` + issuerURL + `] bearer_methods_supported:[header] ` +
		`resource:` + resource + ` resource_name:Files scopes_supported:[files:read]]`
	if text := fmt.Sprint(document); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	for method, status := range map[string]int{
		"GET": 200, "HEAD": 200, "OPTIONS": 204, "POST": 405,
	} {
		t.Run(method, func(t *testing.T) {
			got := ask(method, "")
			if origin := got.Header.Get("Access-Control-Allow-Origin"); got.StatusCode != status ||
				origin != "*" {
				t.Errorf("status %d, origin %q, want %d, *", got.StatusCode, origin, status)
			}
		})
	}
	if again := ask(http.MethodGet, got.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("status %d for a document that is known, want 304", again.StatusCode)
	}
}

// Only the slash of an origin is removed (RFC 9728, section 3.1).
func TestPathOfTheMetadata(t *testing.T) {
	for path, want := range map[string]string{"": "", "/": "", "/mcp/": "/mcp/",
		"/a%2Fb/mcp": "/a%2Fb/mcp"} {
		g := newGuarded(t, func(o *bearer.Options) {
			o.Resource = "https://mcp.example.com" + path
		})
		got, h := g.Metadata()
		if want = "/.well-known/oauth-protected-resource" + want; got != want {
			t.Errorf("%s: path %s, want %s", path, got, want)
		}
		mux := http.NewServeMux()
		mux.Handle(got, h)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, got, nil))
		if w.Code != http.StatusOK {
			t.Errorf("status %d at %s", w.Code, got)
		}
		said := send(t, g, "").Header.Get("WWW-Authenticate")
		if !strings.Contains(said, `resource_metadata="https://mcp.example.com`+want+`"`) {
			t.Errorf("challenge %s, want %s in it", said, want)
		}
	}
}

func TestWrongConfiguration(t *testing.T) {
	for name, change := range map[string]func(o *bearer.Options){
		"no resource": func(o *bearer.Options) { o.Resource = "" },
		"resource over http": func(o *bearer.Options) {
			o.Resource = "http://mcp.example.com/mcp"
		},
		"resource with query":  func(o *bearer.Options) { o.Resource += "?a=b" },
		"resource with #":      func(o *bearer.Options) { o.Resource += "#" },
		"resource is relative": func(o *bearer.Options) { o.Resource = "/mcp" },
		"resource with braces": func(o *bearer.Options) { o.Resource += "/{x}" },
		"no issuer":            func(o *bearer.Options) { o.Issuers = nil },
		"issuer over http": func(o *bearer.Options) {
			o.Issuers[0].URL = "http://login.example.com"
		},
		"issuer twice": func(o *bearer.Options) {
			o.Issuers = append(o.Issuers, o.Issuers[0])
		},
		"keys over http": func(o *bearer.Options) {
			o.Issuers[0].KeysURL = "http://x.example.com"
		},
		"keys are no set": func(o *bearer.Options) { o.Issuers[0].Keys = []byte(`{}`) },
		"key set is empty": func(o *bearer.Options) {
			o.Issuers[0].Keys = []byte(`{"keys":[]}`)
		},
		"keys in two ways": func(o *bearer.Options) {
			introspecting(o)
			o.Issuers[0].Keys = []byte{}
		},
		"introspection of two": func(o *bearer.Options) {
			introspecting(o)
			o.Issuers = append(o.Issuers, o.Issuers[0])
			o.Issuers[1].URL += "2"
		},
		"introspection without secret": func(o *bearer.Options) {
			introspecting(o)
			o.Issuers[0].Introspection.ClientSecret = ""
		},
		"offline_access":   func(o *bearer.Options) { o.Supported = []string{"offline_access"} },
		"scope with space": func(o *bearer.Options) { o.Scopes = []string{"a b"} },
		"empty scope":      func(o *bearer.Options) { o.Supported = []string{""} },
		"empty audience":   func(o *bearer.Options) { o.Issuers[0].Audiences = []string{""} },
		"anonymous, scopes": func(o *bearer.Options) {
			o.Anonymous, o.Scopes = true, []string{"a"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantNoServer(t, change)
		})
	}
}

// Redirects of issuers are refused, because they lead to hosts that are not configured.
func TestRedirectsOfIssuersAreRefused(t *testing.T) {
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/tenant", "/keys", "/introspect",
	} {
		t.Run(path, func(t *testing.T) {
			g := newGuarded(t, func(o *bearer.Options) {
				if path == "/introspect" {
					introspecting(o)
				}
			})
			g.redirected = path
			g.run("keep=x x:503=5 elsewhere=0")
		})
	}
}

// If keys have no id, a token of a new key leads to a fetch.
func TestKeysWithoutIDAreRotated(t *testing.T) {
	inFakeTime(t, "forget rotate keep=old old sleep=5m forget rotate good old:signature keys=2",
		uncached)
}

// Tokens without a key id lead to one fetch in 30 s, and are not refused finally before that.
func TestTokensWithoutKeyIDDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, mine := newGuarded(t), newKey(t)
		g.run("forget rotate good sleep=10m")
		forge := func() {
			g.kept["forged"] = sign(t, jose.ES256, mine, "at+jwt", claimsOf(nil))
		}
		for range 100 {
			forge()
			g.run("forged:503=30")
		}
		g.run("keys=2 rotate keep=x x:503=30 sleep=30s x down sleep=2m")
		forge()
		g.run("forged:503=5")
	})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}
