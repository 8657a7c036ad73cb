package oauth

import (
	"errors"
	"fmt"
	"regexp"
)

// EntraID returns the provider of a tenant of Microsoft Entra ID, for an MCP server registered
// there as the API api (its Application ID URI, for example "api://notes"). tenant is the tenant's
// id in lower case. scopes are the server's names of scopes, without api.
//
// Entra ID's v2.0 metadata lacks code_challenge_methods_supported, its endpoints refuse a resource
// that is not the scopes' API (AADSTS9010010), and scopes begin with their API's URI:
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow and
// https://learn.microsoft.com/entra/identity-platform/scopes-oidc.
func EntraID(tenant, endpoint, api string, scopes ...string) Provider {
	p := Provider{Issuer: "https://login.microsoftonline.com/" + tenant + "/v2.0", AssumeS256: true,
		NoPrompt: true, NoResource: true, Endpoint: endpoint, Scopes: scopes,
		ScopeNames: prefixScopes(api, scopes)}
	isID := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString
	switch {
	case !isID(tenant):
		p.mistake = fmt.Errorf("%q is not the id of a tenant; for the people of any tenant write "+
			"a Provider for {tenantid}, see the README", tenant)
	case api == "" || len(scopes) == 0:
		p.mistake = errors.New("EntraID needs an API and its scopes")
	}
	return p
}

func prefixScopes(api string, scopes []string) map[string]string {
	names := map[string]string{}
	for _, scope := range scopes {
		names[scope] = api + "/" + scope
	}
	return names
}

// Google returns the provider of Google, whose tokens are not for a particular server, so scopes
// say what the MCP server at endpoint can do with them. A refresh token needs access_type=offline
// and consent: https://developers.google.com/identity/protocols/oauth2/web-server.
func Google(endpoint string, scopes ...string) Provider {
	return Provider{Issuer: "https://accounts.google.com", NoResource: true, Endpoint: endpoint,
		Scopes: scopes, AuthorizationParameters: map[string]string{"access_type": "offline",
			"prompt": "consent"}}
}

// GitHub returns the provider of github.com, which has PKCE with S256 but no metadata. Its tokens
// are not for a particular server, so scopes say what the MCP server at endpoint can do with them.
// https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps.
func GitHub(endpoint string, scopes ...string) Provider {
	const issuer = "https://github.com/login/oauth"
	return Provider{Issuer: issuer, AssumeS256: true, NoResource: true, Endpoint: endpoint,
		Scopes: scopes, Endpoints: &ServerEndpoints{Authorization: issuer + "/authorize",
			Token: issuer + "/access_token"}}
}

// Cognito returns the provider of a user pool of Amazon Cognito, for an MCP server registered there
// as the resource server identifier. scopes are the MCP server's names of scopes, without
// identifier. Cognito's metadata lacks code_challenge_methods_supported, although it supports S256
// only (authorization-endpoint.html), and scopes begin with the identifier
// (cognito-user-pools-define-resource-servers.html), both below
// https://docs.aws.amazon.com/cognito/latest/developerguide.
func Cognito(region, pool, endpoint, identifier string, scopes ...string) Provider {
	p := Provider{Issuer: "https://cognito-idp." + region + ".amazonaws.com/" + pool,
		AssumeS256: true, NoPrompt: true, Endpoint: endpoint, Scopes: scopes,
		ScopeNames: prefixScopes(identifier, scopes)}
	if region == "" || pool == "" || identifier == "" || len(scopes) == 0 {
		p.mistake = errors.New("Cognito needs a region, a user pool, an identifier and scopes")
	}
	return p
}
