"""Drives a running ragd with the official OpenAI Python SDK; exits non-zero when something is not as the SDK expects.

    python3 -m venv venv && venv/bin/pip install openai
    ragd serve & venv/bin/python scripts/openai_sdk.py http://127.0.0.1:8080/v1 [KEY]
"""

import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2] if len(sys.argv) > 2 else "none", max_retries=0)
user = [{"role": "user", "content": "Say hello."}]
done = []


def check(name, condition, shown=""):
    done.append(name)
    print(f"{'ok  ' if condition else 'FAIL'} {name} {shown}", flush=True)
    if not condition:
        sys.exit(1)


def refused(name, kind, call):
    try:
        call()
    except kind as e:
        check(name, e.body["code"] and e.body["message"] and e.request_id, f"{e.status_code} {e.body['code']}")
    else:
        check(name, False, "was not refused")


model = next(iter(client.models.list())).id
check("models", bool(model), model)

# Chat.
reply = client.chat.completions.create(model=model, messages=user, max_completion_tokens=16, seed=1, temperature=0, logprobs=True, top_logprobs=3)
first = reply.choices[0].logprobs.content[0]
check("chat, logprobs", len(first.top_logprobs) == 3 and first.logprob <= 0, repr(reply.choices[0].message.content))
stream = client.chat.completions.create(model=model, messages=user, max_completion_tokens=16, temperature=0, stream=True, stream_options={"include_usage": True})
chunks = list(stream)
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("chat, stream", text == reply.choices[0].message.content, chunks[-1].usage.prompt_tokens_details.cached_tokens)
several = client.chat.completions.create(model=model, messages=user, n=3, max_completion_tokens=8, temperature=1, seed=5)
check("chat, n", [c.index for c in several.choices] == [0, 1, 2])
beams = client.chat.completions.create(model=model, messages=user, n=2, max_completion_tokens=6, extra_body={"beams": 3})
check("chat, beams", len(beams.choices) == 2)
schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "warm": {"type": "boolean"}}, "required": ["city", "warm"], "additionalProperties": False}
made = client.chat.completions.create(model=model, messages=user, response_format={"type": "json_schema", "json_schema": {"name": "w", "schema": schema, "strict": True}})
check("chat, json_schema", set(json.loads(made.choices[0].message.content)) == {"city", "warm"}, made.choices[0].message.content)
stopped = client.chat.completions.create(model=model, messages=user, max_completion_tokens=16, temperature=0, stop=[text[2:4]] if len(text) > 4 else ["x"])
check("chat, stop", stopped.choices[0].finish_reason == "stop" or len(text) <= 4)
refused("an unsupported schema", openai.BadRequestError, lambda: client.chat.completions.create(
    model=model, messages=user, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a+"}}}))
refused("tools", openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=user, tools=[{"type": "function", "function": {"name": "f"}}]))

# Embeddings: the SDK asks for base64 by itself.
vectors = client.embeddings.create(model=model, input=["parental leave", "travel costs"])
floats = client.embeddings.create(model=model, input="parental leave", encoding_format="float")
check("embeddings", max(abs(a - b) for a, b in zip(vectors.data[0].embedding, floats.data[0].embedding)) < 1e-6, len(vectors.data[0].embedding))
refused("dimensions", openai.BadRequestError, lambda: client.embeddings.create(model=model, input="x", dimensions=7))

# Files, vector stores, responses.
file = client.files.create(file=("leave.txt", "Employees get 30 days of paid leave. 😀 The office closes at five o'clock.".encode()), purpose="assistants")
check("file content", "30 days" in client.files.content(file.id).text)
store = client.vector_stores.create(name=f"sdk {time.time_ns()}")
try:
    put = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=100)
    check("vector store file", put.status == "completed", put.id)
    check("vector store", client.vector_stores.retrieve(store.id).file_counts.completed == 1, store.id)
    found = client.vector_stores.search(store.id, query="days of leave", max_num_results=1)
    check("vector store search", found.data[0].file_id == file.id and "30 days" in found.data[0].content[0].text, found.data[0].score)
    tools = [{"type": "file_search", "vector_store_ids": [store.id]}]
    answer = client.responses.create(model=model, input="How many days of paid leave do employees get?", tools=tools, include=["file_search_call.results"])
    check("responses, file_search", answer.output[0].type == "file_search_call" and len(answer.output[0].results) == 1, repr(answer.output_text))
    notes = answer.output[1].content[0].annotations
    check("responses, citations", all(n.file_id == file.id and n.index <= len(answer.output_text) for n in notes), [n.quote for n in notes])
    with client.responses.stream(model=model, input="How many days of paid leave do employees get?", tools=tools) as events:
        kinds = [e.type for e in events]
        final = events.get_final_response()
    check("responses, stream", kinds[0] == "response.created" and kinds[-1] == "response.completed" and final.output_text == answer.output_text, len(kinds))
    cited = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "How many days of paid leave do employees get?"}], extra_body={"corpora": [store.name]})
    message = cited.choices[0].message
    check("chat, annotations", all(a.url_citation.title is not None for a in message.annotations or []), [message.content[a.url_citation.start_index:a.url_citation.end_index] for a in message.annotations or []])
finally:
    check("delete vector store", client.vector_stores.delete(store.id).deleted)
    check("delete file", client.files.delete(file.id).deleted)
refused("what is gone", openai.NotFoundError, lambda: client.vector_stores.retrieve(store.id))
plain = client.responses.create(model=model, input="Say hello.", max_output_tokens=4)
check("responses, incomplete", plain.status in ("incomplete", "completed"), plain.usage.total_tokens)
print(f"{len(done)} checks passed with openai {openai.__version__}")
