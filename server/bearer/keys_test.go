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
func wantUnavailable(t *testing.T, response *http.Response, after string) {
	t.Helper()
	wantRefusal(t, response, http.StatusServiceUnavailable, "")
	if got := response.Header.Get("Retry-After"); got != after {
		t.Errorf("Retry-After %q, want %q", got, after)
	}
}

// TestKeysAreRotatedUnderLoad: no token is refused, whichever key has signed it.
func TestKeysAreRotatedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := newGuarded(t, func(o *bearer.Options) { o.MaxCachedTokens = -1 })
		for round := range 5 {
			old := f.token(nil)
			f.rotate(fmt.Sprint("next-", round))
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					wantPassed(t, send(t, g, f.token(nil)), alice)
					wantPassed(t, send(t, g, old), alice)
				})
			}
			all.Wait()
			time.Sleep(time.Minute)
		}
		if n := f.count("/keys"); n > 6 {
			t.Errorf("the keys were fetched %d times for 5 rotations", n)
		}
	})
}

// TestUnknownKeysDoNotFloodTheIssuer: 10,000 tokens with keys that are made up lead to one fetch
// in 30 s, and a new key is still found afterwards.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := newGuarded(t, nil)
		wantPassed(t, send(t, g, f.token(nil)), alice)
		mine, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		check(t, err)
		time.Sleep(time.Hour)
		for n := range 10_000 {
			key := jose.JSONWebKey{Key: mine, KeyID: fmt.Sprint(n)}
			issued := time.Now().Add(-10 * time.Minute).Unix()
			forged := sign(t, jose.ES256, key, "at+jwt", claimsOf(map[string]any{"iat": issued}))
			response := send(t, g, forged)
			if n > 0 {
				wantInvalid(t, response, "key")
			}
		}
		if n := f.count("/keys"); n != 2 {
			t.Errorf("the keys were fetched %d times, want twice", n)
		}
		// A good token of a key that is younger than what is known is not refused for good.
		f.rotate("new")
		token := f.token(nil)
		wantUnavailable(t, send(t, g, token), "30")
		// The operator is not told that the issuer is down.
		why := "has not published the key of the token: its key set of " +
			time.Now().UTC().Format(time.RFC3339)
		if _, err := identify(g, token); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want an error that says %q", err, why)
		}
		time.Sleep(30 * time.Second)
		wantPassed(t, send(t, g, token), alice)
	})
}

func TestIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		failures := make(chan string, 10)
		g := newResourceServer(t, f, func(o *bearer.Options) {
			o.MaxCachedTokens = -1
			o.FetchFailed = func(issuer string, err error) {
				failures <- fmt.Sprint(issuer, ": ", err)
				panic("a panic of the host's, which changes nothing")
			}
		})
		token := func() string { return f.token(nil) }
		f.with(func(f *fakeIssuer) { f.down = true })
		wantUnavailable(t, send(t, g, token()), "5")
		wantUnavailable(t, send(t, g, token()), "5")
		if n := f.count("/.well-known/oauth-authorization-server/tenant"); n != 1 {
			t.Errorf("the issuer was asked %d times, want once in 5 s", n)
		}
		f.with(func(f *fakeIssuer) { f.down = false })
		time.Sleep(5 * time.Second)
		wantPassed(t, send(t, g, token()), alice)

		// Keys that cannot be fetched anew are used for a day.
		f.with(func(f *fakeIssuer) { f.down = true })
		time.Sleep(23 * time.Hour)
		wantPassed(t, send(t, g, token()), alice)
		synctest.Wait() // the fetch in the background has failed
		if n := len(failures); n != 2 {
			t.Errorf("the host was told of %d failures, want 2", n)
		}
		if said := <-failures; !strings.HasPrefix(said, issuerURL+": ") ||
			!strings.Contains(said, "connection refused") {
			t.Errorf("the host was told %q", said)
		}
		time.Sleep(2 * time.Hour)
		wantUnavailable(t, send(t, g, token()), "5")
	})
}

// TestKeysAreFreshAsLongAsTheirIssuerSays, within bounds.
func TestKeysAreFreshAsLongAsTheirIssuerSays(t *testing.T) {
	for cache, fresh := range map[string]time.Duration{
		"":                    15 * time.Minute,
		"no-store":            15 * time.Minute,
		"max-age=0":           time.Minute,
		"public, max-age=120": 2 * time.Minute,
		"max-age=999999999":   24 * time.Hour,
		"max-age=x":           15 * time.Minute,
	} {
		t.Run(cache, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeIssuer(t)
				f.headers.Set("Cache-Control", cache)
				g := newResourceServer(t, f, func(o *bearer.Options) { o.MaxCachedTokens = -1 })
				for _, step := range []struct {
					sleep time.Duration
					want  int
				}{{0, 1}, {fresh - time.Second, 1}, {2 * time.Second, 2}} {
					time.Sleep(step.sleep)
					if step.sleep < 24*time.Hour-2*time.Second { // else they are too old
						wantPassed(t, send(t, g, f.token(nil)), alice)
					} else {
						send(t, g, f.token(nil))
					}
					synctest.Wait()
					if n := f.count("/keys"); n != step.want {
						t.Errorf("after %v the keys were fetched %d times, want %d", step.sleep, n,
							step.want)
					}
				}
			})
		})
	}
}

// TestFirstCallersShareAFetch, and one that gives up does not disturb the others.
func TestFirstCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		hold := make(chan struct{})
		f.hold = hold
		g := newResourceServer(t, f, nil)
		token := f.token(nil)
		var all sync.WaitGroup
		first := httptest.NewRequest(http.MethodGet, "/", nil)
		ctx, cancel := context.WithCancel(t.Context())
		first = first.WithContext(ctx)
		first.Header.Set("Authorization", "Bearer "+token)
		all.Go(func() { wantUnavailable(t, sendRequest(g, first), "5") })
		synctest.Wait()
		for range 63 {
			all.Go(func() { wantPassed(t, send(t, g, token), alice) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		all.Wait()
		if n := f.count("/keys"); n != 1 {
			t.Errorf("the keys were fetched %d times, want once", n)
		}
	})
}

// TestRefusedMetadataIsNoReasonToLookElsewhere.
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
		"keys in a file":      func(m map[string]any) { m["jwks_uri"] = "file:///etc/passwd" },
		"keys are no text":    func(m map[string]any) { m["jwks_uri"] = 7 },
		"longer than 256 KiB": func(m map[string]any) { m["x"] = string(make([]byte, 256<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeIssuer(t)
			change(f.metadata)
			wantUnavailable(t, send(t, newResourceServer(t, f, nil), f.token(nil)), "5")
			if n := len(f.requests); n != 1 {
				t.Errorf("%d documents were asked for, want 1: %v", n, f.requests)
			}
		})
	}
}

// TestMetadataInAnotherPlaceOfItsIssuer: the first place has a page, an error or a redirect.
func TestMetadataInAnotherPlaceOfItsIssuer(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"page":  func(w http.ResponseWriter) { fmt.Fprint(w, "<!DOCTYPE html><p>Welcome.") },
		"error": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://evil.example.com/metadata")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeIssuer(t)
			f.firstPlace = answer
			wantPassed(t, send(t, newResourceServer(t, f, nil), f.token(nil)), alice)
			if f.requests["/metadata"] != 0 {
				t.Error("a redirect was followed")
			}
			f.metadata["issuer"] = "https://evil.example.com"
			wantUnavailable(t, send(t, newResourceServer(t, f, nil), f.token(nil)), "5")
		})
	}
}

// TestKeysThatCannotVerifyAreLeftOut: private, symmetric and short ones, and those for encryption.
func TestKeysThatCannotVerifyAreLeftOut(t *testing.T) {
	f := newFakeIssuer(t)
	for name, key := range map[string]jose.JSONWebKey{
		"for encryption":       {Key: f.signer.Public().Key, KeyID: "k1", Use: "enc"},
		"of another algorithm": {Key: f.signer.Public().Key, KeyID: "k1", Algorithm: "ES384"},
		"private":              {Key: f.signer.Key, KeyID: "k1"},
		"symmetric":            {Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "k1"},
	} {
		t.Run(name, func(t *testing.T) {
			other := newFakeIssuer(t)
			other.with(func(o *fakeIssuer) { o.signer, o.keys = f.signer, []jose.JSONWebKey{key} })
			response := send(t, newResourceServer(t, other, nil), other.token(nil))
			if response.StatusCode == http.StatusOK {
				t.Error("the key has verified a token")
			}
		})
	}
}

// TestGivenKeysAreNeverFetched, for issuers that cannot be reached.
func TestGivenKeysAreNeverFetched(t *testing.T) {
	f := newFakeIssuer(t)
	g := newResourceServer(t, f, func(o *bearer.Options) {
		o.Issuers[0].Keys = keySet(t, f.signer.Public().Key, "k1")
	})
	wantPassed(t, send(t, g, f.token(nil)), alice)
	f.rotate("k2")
	wantInvalid(t, send(t, g, f.token(nil)), "key")
	if len(f.requests) != 0 {
		t.Errorf("the issuer was asked: %v", f.requests)
	}
}

// TestTokensWithoutKeyID are verified by any key of the issuer.
func TestTokensWithoutKeyID(t *testing.T) {
	f := newFakeIssuer(t)
	first := f.signer.Key
	f.rotate("k2")
	g := newResourceServer(t, f, nil)
	wantPassed(t, send(t, g, sign(t, jose.ES256, first, "", claimsOf(nil))), alice)
}

func introspecting(o *bearer.Options) {
	o.Issuers[0].Introspection = &bearer.Introspection{
		URL: "https://login.example.com/introspect", ClientID: "rs:1", ClientSecret: "s&cret"}
}

func TestIntrospection(t *testing.T) {
	good := claimsOf(map[string]any{"active": true, "token_type": "Bearer"})
	for name, of := range map[string]struct {
		changes map[string]any
		why     string // empty: it passes, "503": it cannot be verified
	}{
		"good":           {nil, ""},
		"without expiry": {map[string]any{"exp": nil}, ""},
		"without issuer": {map[string]any{"iss": nil}, ""},
		"null": {map[string]any{"exp": json.RawMessage("null"), "iss": json.RawMessage("null"),
			"nbf": json.RawMessage("null"), "azp": json.RawMessage("null"),
			"cnf": json.RawMessage("null")}, ""},
		"active is null":   {map[string]any{"active": json.RawMessage("null")}, "503"},
		"audience is null": {map[string]any{"aud": json.RawMessage("null")}, audience},
		"inactive":         {map[string]any{"active": false}, "inactive"},
		"active is text":   {map[string]any{"active": "true"}, "503"},
		"without active":   {map[string]any{"active": nil}, "503"},
		"other issuer":     {map[string]any{"iss": "https://evil.example.com"}, "issuer"},
		"other audience": {
			map[string]any{"aud": "https://other.example.com"}, audience,
		},
		"without audience":          {map[string]any{"aud": nil}, audience},
		"expired":                   {map[string]any{"exp": 1}, "expired"},
		"DPoP":                      {map[string]any{"token_type": "DPoP"}, "type"},
		"neither person nor client": {map[string]any{"sub": nil, "client_id": nil}, "subject"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeIssuer(t)
			f.says = map[string]any{}
			for name, value := range good {
				f.says[name] = value
			}
			for name, value := range of.changes {
				if f.says[name] = value; value == nil {
					delete(f.says, name)
				}
			}
			response := send(t, newResourceServer(t, f, introspecting), "opaque-token")
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

// TestIntrospectionsThatSayNothingOfTheToken are 503, however often: clients keep their tokens.
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
			g := newResourceServer(t, newFakeIssuer(t), func(o *bearer.Options) {
				introspecting(o)
				o.HTTPClient = &http.Client{Transport: providerFunc(
					func(*http.Request) (int, string) { return 200, body })}
			})
			for range 3 {
				wantUnavailable(t, send(t, g, "opaque"), "5")
			}
		})
	}
}

// TestIntrospectionIsRemembered for 30 s where a token is active and 5 s where it is not.
func TestIntrospectionIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		f.says = claimsOf(map[string]any{"active": true})
		g := newResourceServer(t, f, introspecting)
		token := f.token(nil) // also tokens that could be read are asked about
		for range 3 {
			wantPassed(t, send(t, g, token), alice)
		}
		f.with(func(f *fakeIssuer) { f.says = map[string]any{"active": false} })
		wantPassed(t, send(t, g, token), alice)
		time.Sleep(30 * time.Second)
		for range 3 {
			wantInvalid(t, send(t, g, token), "inactive")
		}
		if n := f.count("/introspect"); n != 2 {
			t.Errorf("the issuer was asked %d times, want twice", n)
		}
		time.Sleep(5 * time.Second)
		f.with(func(f *fakeIssuer) { f.down = true })
		wantUnavailable(t, send(t, g, token), "5")
		f.with(func(f *fakeIssuer) {
			f.down, f.says = false, claimsOf(map[string]any{"active": true})
		})
		wantPassed(t, send(t, g, token), alice)
	})
}

// TestRefusedTokensEvictNoVerifiedOnes: whoever makes tokens up slows nobody else down.
func TestRefusedTokensEvictNoVerifiedOnes(t *testing.T) {
	f := newFakeIssuer(t)
	f.says = claimsOf(map[string]any{"active": true})
	g := newResourceServer(t, f, func(o *bearer.Options) {
		introspecting(o)
		o.MaxCachedTokens = 2
	})
	wantPassed(t, send(t, g, "good"), alice)
	f.with(func(f *fakeIssuer) { f.says = map[string]any{"active": false} })
	for n := range 10 {
		wantInvalid(t, send(t, g, fmt.Sprint("made-up-", n)), "inactive")
	}
	wantPassed(t, send(t, g, "good"), alice)
}

// TestTokensThatAreIntrospectedAreNotVerifiedHere: their issuer may sign them as it likes. Those that
// name an issuer are shown to no other.
func TestTokensThatAreIntrospectedAreNotVerifiedHere(t *testing.T) {
	f := newFakeIssuer(t)
	f.says = claimsOf(map[string]any{"active": true})
	g := newResourceServer(t, f, introspecting)
	symmetric := sign(t, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), "", claimsOf(nil))
	anonymous := f.token(map[string]any{"iss": nil})
	foreign := f.token(map[string]any{"iss": "https://other.example.com"})
	wantPassed(t, send(t, g, symmetric), alice)
	wantPassed(t, send(t, g, anonymous), alice)
	asked := f.count("/introspect")
	wantInvalid(t, send(t, g, foreign), "issuer")
	if n := f.count("/introspect"); n != asked {
		t.Error("a token of another issuer was shown to this one")
	}
}

// TestMadeUpTokensDoNotFloodTheIssuer: it is asked about 64 at a time, while the others wait.
func TestMadeUpTokensDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		hold := make(chan struct{})
		f.hold, f.says = hold, map[string]any{"active": false}
		g := newResourceServer(t, f, func(o *bearer.Options) {
			introspecting(o)
			o.Issuers[0].MaxFailedLookUps = 10_000
		})
		var all sync.WaitGroup
		for n := range 1000 {
			all.Go(func() {
				wantInvalid(t, send(t, g, fmt.Sprint("made-up-", n)), "inactive")
			})
		}
		synctest.Wait()
		if n := f.count("/introspect"); n != 64 {
			t.Errorf("the issuer is asked about %d tokens at once, want 64", n)
		}
		close(hold)
		all.Wait()
		if n := f.count("/introspect"); n != 1000 {
			t.Errorf("the issuer was asked about %d tokens, want all", n)
		}
	})
}

// TestTokensThatNobodyWaitsForAreNotIntrospected: a sender of made-up tokens does not wait for the
// answers. Their verifications kept a goroutine each, and a place before that of other people.
func TestTokensThatNobodyWaitsForAreNotIntrospected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		hold := make(chan struct{})
		f.hold, f.says = hold, claimsOf(map[string]any{"active": true})
		g := newResourceServer(t, f, introspecting)
		ctx, leave := context.WithCancel(t.Context())
		var gone, waiting sync.WaitGroup
		request := func(ctx context.Context, token string) *http.Response {
			r := httptest.NewRequest(http.MethodGet, "/other", nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+token)
			return sendRequest(g, r)
		}
		for n := range 1000 {
			gone.Go(func() { wantUnavailable(t, request(ctx, fmt.Sprint("made-up-", n)), "5") })
		}
		synctest.Wait()
		waiting.Go(func() { wantPassed(t, request(t.Context(), "made-up-999"), alice) })
		waiting.Go(func() { wantPassed(t, request(t.Context(), "good"), alice) })
		synctest.Wait()
		leave()
		gone.Wait()
		waiting.Go(func() { wantPassed(t, request(t.Context(), "made-up-998"), alice) })
		synctest.Wait()
		close(hold)
		waiting.Wait()
		synctest.Wait()
		if n := f.count("/introspect"); n > 64+3 {
			t.Errorf("the issuer was asked about %d tokens, want at most 67", n)
		}
	})
}

// TestVerifiedTokensAreRemembered until they expire, and for five minutes at most: then a key that
// the issuer has taken back counts.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := newGuarded(t, nil)
		g.SetLeeway(0)
		long := f.token(nil)
		short := f.token(map[string]any{"exp": time.Now().Add(20 * time.Second).Unix()})
		wantPassed(t, send(t, g, long), alice)
		wantPassed(t, send(t, g, short), alice)
		f.with(func(f *fakeIssuer) {
			f.keys = nil
			f.headers.Set("Cache-Control", "max-age=60")
		})
		f.rotate("k2")
		time.Sleep(20 * time.Second)
		wantInvalid(t, send(t, g, short), "expired")
		time.Sleep(4 * time.Minute)
		wantPassed(t, send(t, g, long), alice)
		time.Sleep(time.Hour - 5*time.Minute)
		wantPassed(t, send(t, g, f.token(nil)), alice) // fetches the keys of today
		wantInvalid(t, send(t, g, long), "key")
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

func TestMetadataOfAResourceAtTheRoot(t *testing.T) {
	f := newFakeIssuer(t)
	for _, at := range []string{"https://mcp.example.com", "https://mcp.example.com/"} {
		g := newResourceServer(t, f, func(o *bearer.Options) { o.Resource = at })
		if path, _ := g.Metadata(); path != "/.well-known/oauth-protected-resource" {
			t.Errorf("%s: path %s", at, path)
		}
	}
}

// TestMetadataOfAResourceThatEndsInASlash: the slash of a path belongs to the resource (RFC 9728,
// section 3.1). Clients that compute the URL did not find the metadata.
func TestMetadataOfAResourceThatEndsInASlash(t *testing.T) {
	g := newResourceServer(t, newFakeIssuer(t),
		func(o *bearer.Options) { o.Resource = resource + "/" })
	path, _ := g.Metadata()
	if want := "/.well-known/oauth-protected-resource/mcp/"; path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	challenge := send(t, g, "").Header.Get("WWW-Authenticate")
	if want := `resource_metadata="https://mcp.example.com` + path + `"`; !strings.Contains(
		challenge, want) {
		t.Errorf("challenge %s, want %s in it", challenge, want)
	}
}

// TestPathsAreNotDecoded: what is escaped in the path of a resource is escaped in that of its
// metadata, and a ServeMux finds it there.
func TestPathsAreNotDecoded(t *testing.T) {
	g := newResourceServer(t, newFakeIssuer(t), func(o *bearer.Options) {
		o.Resource = "https://mcp.example.com/a%2Fb/mcp"
	})
	path, h := g.Metadata()
	if want := "/.well-known/oauth-protected-resource/a%2Fb/mcp"; path != want {
		t.Fatalf("path %s, want %s", path, want)
	}
	mux := http.NewServeMux()
	mux.Handle(path, h)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d at %s", w.Code, path)
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
			opts := bearer.Options{Resource: resource, Issuers: []bearer.Issuer{{URL: issuerURL}}}
			change(&opts)
			if g, err := bearer.New(opts); err == nil {
				t.Errorf("got %v and no error", g)
			}
		})
	}
}

// TestKeySetsOutOfBoundsAreRefused, as a whole, and keys that are too short by themselves.
func TestKeySetsOutOfBoundsAreRefused(t *testing.T) {
	f := newFakeIssuer(t)
	for range 100 {
		f.keys = append(f.keys, f.keys[0])
	}
	wantUnavailable(t, send(t, newResourceServer(t, f, nil), f.token(nil)), "5")

	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err)
	}
	f.keys = []jose.JSONWebKey{{Key: short.Public(), KeyID: "short"}}
	token := sign(t, jose.RS256, jose.JSONWebKey{Key: short, KeyID: "short"}, "", claimsOf(nil))
	wantInvalid(t, send(t, newResourceServer(t, f, nil), token), "key")
}

// TestRedirectsOfIssuersAreRefused: they lead to hosts that nobody has configured.
func TestRedirectsOfIssuersAreRefused(t *testing.T) {
	f := newFakeIssuer(t)
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/tenant", "/keys", "/introspect",
	} {
		t.Run(path, func(t *testing.T) {
			f.with(func(f *fakeIssuer) { f.redirected = path })
			g := newResourceServer(t, f, nil)
			if path == "/introspect" {
				g = newResourceServer(t, f, introspecting)
			}
			wantUnavailable(t, send(t, g, f.token(nil)), "5")
			if n := f.count("/elsewhere"); n != 0 {
				t.Errorf("the redirect was followed %d times", n)
			}
		})
	}
}

// TestKeysOfAnIssuerOnTheNetAreFetchedByTLS, also where its metadata names this machine.
func TestKeysOfAnIssuerOnTheNetAreFetchedByTLS(t *testing.T) {
	f := newFakeIssuer(t)
	f.metadata["jwks_uri"] = "http://127.0.0.1/keys"
	wantUnavailable(t, send(t, newResourceServer(t, f, nil), f.token(nil)), "5")
	if n := f.count("/keys"); n != 0 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestKeysWithoutIDAreRotated: neither the key nor the token has an id, as with issuers that have
// one key. A token of the next key was refused until the keys were fetched again.
func TestKeysWithoutIDAreRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		f.with(func(f *fakeIssuer) { f.keys = nil })
		f.rotate("")
		g := newResourceServer(t, f, func(o *bearer.Options) { o.MaxCachedTokens = -1 })
		old := f.token(nil)
		wantPassed(t, send(t, g, old), alice)
		time.Sleep(5 * time.Minute)
		f.with(func(f *fakeIssuer) { f.keys = nil })
		f.rotate("")
		wantPassed(t, send(t, g, f.token(nil)), alice)
		wantInvalid(t, send(t, g, old), "signature")
		if n := f.count("/keys"); n != 2 {
			t.Errorf("the keys were fetched %d times, want twice", n)
		}
	})
}

// TestTokensWithoutKeyIDDoNotFloodTheIssuer: those that no key has signed lead to one fetch in
// 30 s. Nobody's token is refused for good meanwhile whose key may have been published since.
func TestTokensWithoutKeyIDDoNotFloodTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		f.with(func(f *fakeIssuer) { f.keys = nil })
		f.rotate("")
		g := newResourceServer(t, f, nil)
		wantPassed(t, send(t, g, f.token(nil)), alice)
		mine, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		check(t, err)
		time.Sleep(10 * time.Minute)
		for n := range 100 {
			forged := sign(t, jose.ES256, mine, "at+jwt", claimsOf(map[string]any{"jti": n}))
			wantUnavailable(t, send(t, g, forged), "30")
		}
		if n := f.count("/keys"); n != 2 {
			t.Errorf("the keys were fetched %d times, want twice", n)
		}
		f.rotate("")
		token := f.token(nil)
		wantUnavailable(t, send(t, g, token), "30")
		time.Sleep(30 * time.Second)
		wantPassed(t, send(t, g, token), alice)
		f.with(func(f *fakeIssuer) { f.down = true })
		time.Sleep(2 * time.Minute)
		forged := sign(t, jose.ES256, mine, "at+jwt", claimsOf(nil))
		wantUnavailable(t, send(t, g, forged), "5")
	})
}
