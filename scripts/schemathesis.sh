#!/bin/sh
# Fuzzes a running ragd by its own description. The server should be one that can be thrown away: documents are added and deleted.
#   python3 -m venv venv && venv/bin/pip install schemathesis
#   ragd --data-dir /tmp/fuzz --model SmolLM2-135M-Instruct.Q4_1 serve --max-output 256 & PATH=venv/bin:$PATH scripts/schemathesis.sh http://127.0.0.1:8080
# --max-output bounds what one request may cost, so that a minute is enough for the most that one can ask for.
# Left out: the metrics, which are text; createKey, after which the server would refuse all requests without a key; continueUpload, whose media type
# schemathesis cannot make. server/access_test.go and server/uploads_test.go cover them.
set -eu
url=$1
exec schemathesis run "$url/openapi.yaml" --url "$url" --checks not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance \
  --exclude-path /metrics --exclude-operation-id continueUpload --exclude-operation-id createKey --max-examples "${2:-20}" --request-timeout 60 --seed 1
