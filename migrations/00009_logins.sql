-- People who sign in at the page: a session is a key that ends by itself, so that what limits, records and revokes keys holds for sessions, too. Its
-- secret is a cookie; it does not work as a key.

-- +goose Up
ALTER TABLE api_keys ADD login boolean NOT NULL DEFAULT false;

-- +goose Down
DELETE FROM api_keys WHERE login;
ALTER TABLE api_keys DROP login;
