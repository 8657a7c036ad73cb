package bearer

// EntraID returns the issuer of one tenant of Microsoft Entra ID, a GUID in lower case, for a
// server registered there as clientID, with tokens of version 2, whose aud is clientID
// (https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference). Tools name
// scopes as requested, "api://clientID/notes.read"; tokens have "notes.read" in scp. A program's
// app roles count as scopes; a user's do not, as users do not grant them to each client.
func EntraID(tenant, clientID string) Issuer {
	return Issuer{URL: "https://login.microsoftonline.com/" + tenant + "/v2.0",
		Audiences: []string{clientID}, ScopesOf: entraScopes("api://" + clientID + "/")}
}

// EntraIDAnyTenant returns the issuer of all tenants of Microsoft Entra ID, see [EntraID]. It
// accepts users of every organization
// (https://learn.microsoft.com/entra/identity-platform/howto-convert-app-to-be-multi-tenant).
func EntraIDAnyTenant(clientID string) Issuer {
	i := EntraID(tenantMark, clientID)
	i.AnyTenant = true
	i.LoginURL = "https://login.microsoftonline.com/organizations/v2.0"
	i.KeysURL = "https://login.microsoftonline.com/organizations/discovery/v2.0/keys"
	return i
}

// entraScopes returns ScopesOf for tokens of Entra ID, whose scopes lack the prefix.
func entraScopes(prefix string) func(t *Token) ([]string, error) {
	return func(t *Token) ([]string, error) {
		names := t.Scopes
		if _, ofPerson := t.claims["scp"]; !ofPerson {
			if _, err := t.Claim("roles", &names); err != nil {
				return nil, err
			}
		}
		scopes := make([]string, len(names))
		for n, name := range names {
			scopes[n] = prefix + name
		}
		return scopes, nil
	}
}
