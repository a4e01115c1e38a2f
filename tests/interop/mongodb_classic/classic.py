"""The classic recipes for ids from MongoDB, as programs in Python have them; called as classic.mjs is."""

import random
import sys

import pymongo
from pymongo.errors import BulkWriteError

ONE = "UNIQUE COUNT DOCUMENT IDENTIFIER"
NOTES = ("Increment COUNT using findAndModify to ensure that the COUNT field will be incremented atomically with "
         "the fetch of this document")

url, database, recipe, first, second = sys.argv[1:]
client = pymongo.MongoClient(url, w="majority")
counters = client[database]["uniqueIdentifierCounter"]
ids = client[database]["ids"]


def insert_what_is_missing(collection, documents):
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        if any(each["code"] != 11000 for each in error.details["writeErrors"]):
            raise


def set_up(count, size):
    insert_what_is_missing(counters, [{"_id": ONE, "COUNT": 0, "NOTES": NOTES}])
    insert_what_is_missing(ids, [{"_id": "orders", "index": 1000}])
    insert_what_is_missing(counters, [{"_id": f"COUNTER DOCUMENT NUMBER {k}", "COUNT": k * size,
                                       "MAX_VALUE": (k + 1) * size - 1, "NOTES": NOTES} for k in range(count)])


def wait_for_the_others():
    client.admin.command("ping")
    print("ready", flush=True)
    sys.stdin.readline()


def show(begin, end):
    sys.stdout.write("".join(f"{int(value)}\n" for value in range(int(begin), int(end))))


def take_from_one(rounds, batch):
    wait_for_the_others()
    for _ in range(rounds):
        before = counters.find_one_and_update({"_id": ONE}, {"$inc": {"COUNT": batch}})
        show(before["COUNT"], before["COUNT"] + batch)


def take_from_many(rounds, batch):
    wait_for_the_others()
    names = [each["_id"] for each in counters.find({"MAX_VALUE": {"$exists": True}})]
    done = 0
    while names and (rounds == 0 or done < rounds):
        name = random.choice(names)
        before = counters.find_one_and_update({"_id": name}, {"$inc": {"COUNT": batch}})
        if before["COUNT"] > before["MAX_VALUE"]:
            names.remove(name)
        show(before["COUNT"], min(before["COUNT"] + batch, before["MAX_VALUE"] + 1))
        done += 1


def take_ranges(rounds, step):
    wait_for_the_others()
    for _ in range(rounds):
        after = ids.find_one_and_update({"_id": "orders"}, {"$inc": {"index": step}},
                                        return_document=pymongo.ReturnDocument.AFTER)
        show(after["index"] - step, after["index"])


def count_doubles(_, __):
    print(counters.count_documents({"COUNT": {"$type": "double"}}))


RECIPES = {"set-up": set_up, "doubles": count_doubles, "counter": take_from_one, "counters": take_from_many,
           "ids": take_ranges}
RECIPES[recipe](int(first), int(second))
